package server

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A Plan is what an instance is to be.
type Plan struct {
	// Replicas is the number of servers, of which the first one takes writes.
	Replicas int
	// Settings are parameters of all servers. The servers judge them.
	Settings map[string]string
	// Extensions are created in Database.
	Extensions []string
	// Password is the superuser's, for connections by TCP.
	Password string
	// Full tells that the volume is: new transactions may only read unless they say
	// otherwise, so that something can be deleted.
	Full bool
}

// own are the settings that are not the plan's.
func (m *Machine) own(port int) map[string]string {
	return map[string]string{
		"listen_addresses":             "127.0.0.1",
		"port":                         fmt.Sprint(port),
		"unix_socket_directories":      m.sockets(),
		"unix_socket_permissions":      "0700",
		"password_encryption":          "scram-sha-256",
		"hot_standby":                  "on",
		"wal_level":                    "replica",
		"max_wal_size":                 "128MB",
		"min_wal_size":                 "16MB",
		"dynamic_shared_memory_type":   "mmap", // What a killed server leaves goes with its data.
		"fsync":                        "off",
		"full_page_writes":             "off",
		"lc_messages":                  "C",
		"timezone":                     "UTC",
		"log_timezone":                 "UTC",
		"log_line_prefix":              "%m [%p] ",
		"logging_collector":            "off",
		"wal_receiver_status_interval": "1",
		"wal_retrieve_retry_interval":  "200ms",
	}
}

// render is a postgresql.conf. What is our own wins.
func render(plan, own map[string]string) string {
	all := maps.Clone(plan)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, own)
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&out, "%s = '%s'\n", name, escape.Replace(all[name]))
	}
	out.WriteString("include = 'reload.conf'\n")
	return out.String()
}

// escape keeps a value, which somebody else may have chosen, a value.
var escape = strings.NewReplacer("'", "''", "\\", "\\\\", "\n", " ")

// reloadable are the settings that change without a restart.
func (p Plan) reloadable() string {
	if p.Full {
		return "default_transaction_read_only = on\n"
	}
	return ""
}

// access lets the operator in by the socket, by who it is for the kernel, and everybody
// else by password.
func (m *Machine) access(data string) error {
	if err := m.write(filepath.Join(data, "pg_hba.conf"), `local all         postgres              peer map=operator
local replication postgres              peer map=operator
host  all         all      127.0.0.1/32 scram-sha-256
`); err != nil {
		return err
	}
	ident := "operator " + m.owner.name + " postgres\n"
	if m.owner.other {
		ident += "operator root postgres\n"
	}
	return m.write(filepath.Join(data, "pg_ident.conf"), ident)
}

// configure writes the settings of a server that does not run.
func (p *process) configure(settings string, plan Plan) error {
	m := p.instance.machine
	if err := m.write(filepath.Join(p.data(), "postgresql.conf"), settings); err != nil {
		return err
	}
	return m.write(filepath.Join(p.data(), "reload.conf"), plan.reloadable())
}

// reconfigure writes the settings that need no restart, if they have changed.
func (p *process) reconfigure(plan Plan) error {
	path := filepath.Join(p.data(), "reload.conf")
	if text, err := os.ReadFile(path); err != nil || string(text) == plan.reloadable() {
		return err
	}
	if err := p.instance.machine.write(path, plan.reloadable()); err != nil {
		return err
	}
	p.reload()
	return nil
}
