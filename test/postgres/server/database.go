package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

const (
	// Database is the applications'.
	Database = "a9s_apps_default_db"
	// apps owns Database and all that applications make in it, so that each may use
	// what another has made, and it stays when a user goes.
	apps = "a9s_apps"
)

// prepared is what a server has got since it was first looked at. A restart of the
// operator does it again, which changes nothing.
type prepared struct {
	database   bool
	extensions []string
	password   string
	users      map[string]string // passwords by name
}

// prepare makes the database, its extensions and the superuser's password.
func (i *Instance) prepare(ctx context.Context, plan Plan) error {
	i.mu.Lock()
	has := i.prepared
	i.mu.Unlock()
	if has.database && has.password == plan.Password && slices.Equal(has.extensions, plan.Extensions) {
		return nil
	}
	if err := i.do(ctx, "postgres", func(c *pgx.Conn) error {
		if err := createDatabase(ctx, c); err != nil {
			return err
		}
		_, err := c.Exec(ctx, "ALTER ROLE postgres PASSWORD "+quote(plan.Password))
		return err
	}); err != nil {
		return fmt.Errorf("create the database %s: %w", Database, err)
	}
	if err := i.do(ctx, Database, func(c *pgx.Conn) error {
		for _, name := range plan.Extensions {
			if _, err := c.Exec(ctx, "CREATE EXTENSION IF NOT EXISTS "+identifier(name)); err != nil {
				return fmt.Errorf("create the extension %s: %w", name, err)
			}
		}
		return nil
	}); err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.prepared.database, i.prepared.password, i.prepared.extensions = true, plan.Password, plan.Extensions
	return nil
}

func createDatabase(ctx context.Context, c *pgx.Conn) error {
	for _, step := range []struct{ unless, do string }{
		{"SELECT FROM pg_roles WHERE rolname = " + quote(apps), "CREATE ROLE " + identifier(apps)},
		{"SELECT FROM pg_database WHERE datname = " + quote(Database), "CREATE DATABASE " + identifier(Database) + " OWNER " + identifier(apps)},
		{"", "REVOKE ALL ON DATABASE " + identifier(Database) + " FROM PUBLIC"},
	} {
		if step.unless != "" {
			found, err := exists(ctx, c, step.unless)
			if err != nil {
				return err
			}
			if found {
				continue
			}
		}
		if _, err := c.Exec(ctx, step.do); err != nil {
			return err
		}
	}
	return nil
}

// EnsureUser makes a role that may log in with a password, and do all in Database.
func (i *Instance) EnsureUser(ctx context.Context, name, password string) error {
	i.mu.Lock()
	done := i.prepared.database && i.prepared.users[name] == password
	ready := i.prepared.database
	i.mu.Unlock()
	if done {
		_, err := i.first()
		return err
	}
	if !ready {
		return ErrNotRunning
	}
	role := identifier(name)
	err := i.do(ctx, Database, func(c *pgx.Conn) error {
		found, err := exists(ctx, c, "SELECT FROM pg_roles WHERE rolname = "+quote(name))
		if err != nil {
			return err
		}
		verb := "CREATE"
		if found {
			verb = "ALTER"
		}
		for _, do := range []string{
			verb + " ROLE " + role + " LOGIN PASSWORD " + quote(password),
			"GRANT " + identifier(apps) + " TO " + role,
			"ALTER ROLE " + role + " IN DATABASE " + identifier(Database) + " SET role = " + identifier(apps),
		} {
			if _, err := c.Exec(ctx, do); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("create the user %s: %w", name, err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.prepared.users == nil {
		i.prepared.users = map[string]string{}
	}
	i.prepared.users[name] = password
	return nil
}

// DropUser drops a role and ends its connections. What it has made stays.
func (i *Instance) DropUser(ctx context.Context, name string) error {
	role := identifier(name)
	err := i.do(ctx, Database, func(c *pgx.Conn) error {
		found, err := exists(ctx, c, "SELECT FROM pg_roles WHERE rolname = "+quote(name))
		if err != nil || !found {
			return err
		}
		for _, do := range []string{
			"ALTER ROLE " + role + " NOLOGIN",
			"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = " + quote(name),
			"REASSIGN OWNED BY " + role + " TO " + identifier(apps),
			"DROP OWNED BY " + role,
			"DROP ROLE " + role,
		} {
			if _, err := c.Exec(ctx, do); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("drop the user %s: %w", name, err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.prepared.users, name)
	return nil
}

// do connects to a database of the server that takes writes.
func (i *Instance) do(ctx context.Context, database string, f func(*pgx.Conn) error) error {
	p, err := i.first()
	if err != nil {
		return err
	}
	conn, err := p.connect(ctx, database)
	if err != nil {
		return errors.Join(ErrNotRunning, err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return f(conn)
}

func exists(ctx context.Context, c *pgx.Conn, query string) (found bool, err error) {
	err = c.QueryRow(ctx, "SELECT EXISTS ("+query+")").Scan(&found)
	return found, err
}

func identifier(name string) string { return pgx.Identifier{name}.Sanitize() }

// quote is a string in SQL.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// Dump writes what Database holds into a file, all of it or none, and returns its size.
func (i *Instance) Dump(ctx context.Context, file string) (int64, error) {
	unfinished := file + ".unfinished"
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return 0, err
	}
	if err := i.client(ctx, "pg_dump", "--format=custom", "--file="+unfinished); err != nil {
		return 0, errors.Join(err, os.RemoveAll(unfinished))
	}
	info, err := os.Stat(unfinished)
	if err != nil {
		return 0, err
	}
	return info.Size(), os.Rename(unfinished, file)
}

// Restore brings back what Dump wrote, all of it or none. What has the same names is
// replaced; what is not in the file stays.
func (i *Instance) Restore(ctx context.Context, file string) error {
	return i.client(ctx, "pg_restore", "--clean", "--if-exists", "--single-transaction", file)
}

// lockTimeout ends a dump or restore that waits for a client which holds a table.
const lockTimeout = "PGOPTIONS=-c lock_timeout=30s -c statement_timeout=0 -c default_transaction_read_only=off -c log_statement=none"

// client runs one of PostgreSQL's clients on Database, as the superuser by the socket.
func (i *Instance) client(ctx context.Context, program string, args ...string) error {
	p, err := i.first()
	if err != nil {
		return err
	}
	port, err := p.choosePort(false)
	if err != nil {
		return err
	}
	args = append([]string{"--host=" + i.machine.sockets(), "--port=" + strconv.Itoa(port), "--username=postgres",
		"--no-password", "--dbname=" + Database}, args...)
	cmd := i.machine.command(ctx, program, args...)
	cmd.Env = append(cmd.Env, lockTimeout)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", program, err, firstLine(out))
	}
	return nil
}

// firstLine says what went wrong; others follow from it.
func firstLine(out []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return line
}
