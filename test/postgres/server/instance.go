package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrNotRunning is what an instance answers to whom it cannot serve now.
var ErrNotRunning = errors.New("the instance is not running")

// An Instance is a server that takes writes and its standbys. Reconcile and Machine's
// Delete may not be called side by side; the other methods may.
type Instance struct {
	machine *Machine
	dir     string
	ended   func()

	mu      sync.Mutex
	servers []*process
	// prepared is what the run of the first server has got of what is in its database.
	prepared prepared
}

// A State is what Reconcile found and made.
type State struct {
	Running bool // the first server answers
	Ready   int  // how many servers answer, of the standbys those that follow
	Err     error
}

// Reconcile starts, restarts and prepares the servers until they are as the plan says,
// as far as that goes now.
func (i *Instance) Reconcile(ctx context.Context, plan Plan) State {
	servers := i.plan(plan.Replicas)
	var state State
	if state.Err = i.primary(ctx, servers[0], plan); state.Err != nil {
		return state
	}
	state.Running, state.Ready = true, 1
	var errs []error
	for n, s := range servers[1:] {
		if err := i.standby(ctx, s, servers[0], plan); err != nil {
			errs = append(errs, fmt.Errorf("standby %d: %w", n+1, err))
			continue
		}
		state.Ready++
	}
	state.Err = errors.Join(append(errs, i.prepare(ctx, plan))...)
	return state
}

// plan is a process for each server.
func (i *Instance) plan(replicas int) []*process {
	i.mu.Lock()
	defer i.mu.Unlock()
	for n := len(i.servers); n < max(1, replicas); n++ {
		i.servers = append(i.servers, &process{instance: i, dir: filepath.Join(i.dir, strconv.Itoa(n))})
	}
	return i.servers
}

// first is the server that takes writes, if it runs.
func (i *Instance) first() (*process, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.servers) == 0 || i.servers[0].current() == nil {
		return nil, ErrNotRunning
	}
	return i.servers[0], nil
}

// Address is where clients connect to the server that takes writes.
func (i *Instance) Address() (host string, port int, err error) {
	p, err := i.first()
	if err != nil {
		return "", 0, err
	}
	port, err = p.choosePort(false)
	return "127.0.0.1", port, err
}

// PIDs are the servers' process ids.
func (i *Instance) PIDs() []int {
	i.mu.Lock()
	defer i.mu.Unlock()
	var pids []int
	for _, s := range i.servers {
		if r := s.current(); r != nil {
			pids = append(pids, r.pid)
		}
	}
	return pids
}

// stop stops the servers, those that only read last: the first one hands its last
// changes over to them.
func (i *Instance) stop() {
	i.mu.Lock()
	servers := i.servers
	i.mu.Unlock()
	for _, s := range servers {
		s.stop()
	}
}

// primary makes the server that takes writes answer, with the plan's settings.
func (i *Instance) primary(ctx context.Context, p *process, plan Plan) error {
	err := p.create(func(data string) error {
		out, err := i.machine.asOwner(i.machine.command(ctx, "initdb", "-D", data, "-U", "postgres",
			"--auth-local=peer", "--auth-host=scram-sha-256", "--encoding=UTF8", "--locale=C",
			"--wal-segsize=1", "--no-sync", "--no-instructions")).CombinedOutput()
		if err != nil {
			return fmt.Errorf("initdb: %w: %s", err, lastLine(out))
		}
		return i.machine.access(data)
	})
	if err != nil {
		return err
	}
	settings, err := p.settings(plan, nil, false)
	if err != nil {
		return err
	}
	if r := p.current(); r != nil && r.settings != settings {
		p.stop()
	}
	return p.serve(ctx, settings, plan, nil)
}

// standby makes a server follow the first one.
func (i *Instance) standby(ctx context.Context, p, first *process, plan Plan) error {
	slot := "standby_" + filepath.Base(p.dir)
	err := p.create(func(data string) error { return i.clone(ctx, first, data, slot) })
	if err != nil {
		return err
	}
	settings, err := p.settings(plan, first, false)
	if err != nil {
		return err
	}
	if r := p.current(); r != nil && r.settings != settings {
		// Fewer connections than the first server has are too few: it must have read
		// first that those have become fewer.
		if err := p.awaitReplay(ctx, first); err != nil {
			return err
		}
		p.stop()
	}
	if err := p.serve(ctx, settings, plan, first); err != nil {
		return err
	}
	return p.follows(ctx)
}

// create makes a server's data, all of them or none.
func (p *process) create(fill func(data string) error) error {
	if _, err := os.Stat(p.data()); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, dir := range []string{p.instance.dir, p.dir} {
		if err := p.instance.machine.mkdir(dir); err != nil {
			return err
		}
	}
	unfinished := filepath.Join(p.dir, "unfinished")
	if err := os.RemoveAll(unfinished); err != nil {
		return err
	}
	if err := fill(unfinished); err != nil {
		return err
	}
	return os.Rename(unfinished, p.data())
}

// settings are those of the file postgresql.conf, those of a standby with a first server.
func (p *process) settings(plan Plan, first *process, anotherPort bool) (string, error) {
	port, err := p.choosePort(anotherPort)
	if err != nil {
		return "", err
	}
	own := p.instance.machine.own(port)
	if first != nil {
		firstPort, err := first.choosePort(false)
		if err != nil {
			return "", err
		}
		own["primary_conninfo"] = fmt.Sprintf("host=%s port=%d user=postgres", p.instance.machine.sockets(), firstPort)
		own["primary_slot_name"] = "standby_" + filepath.Base(p.dir)
	}
	return render(plan.Settings, own), nil
}

// serve makes a server answer.
func (p *process) serve(ctx context.Context, settings string, plan Plan, first *process) error {
	if r := p.current(); r != nil {
		if err := p.reconfigure(plan); err != nil {
			return err
		}
		if err := p.answers(ctx); err != nil {
			if !r.ready {
				return errStarting
			}
			return fmt.Errorf("the server does not answer: %w", err)
		}
		p.answered(r)
		return nil
	}
	if err := p.configure(settings, plan); err != nil {
		return err
	}
	err := p.start(ctx, settings)
	if errors.Is(err, errPortTaken) {
		if settings, err = p.settings(plan, first, true); err == nil {
			if err = p.configure(settings, plan); err == nil {
				err = p.start(ctx, settings)
			}
		}
	}
	if r := p.current(); err == nil && r != nil {
		p.answered(r)
	}
	return err
}

func (p *process) answered(r *run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r.ready = true
}

// clone copies the first server's data, from which a standby goes on.
func (i *Instance) clone(ctx context.Context, first *process, data, slot string) error {
	conn, err := first.connect(ctx, "postgres")
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, `SELECT pg_create_physical_replication_slot($1, true)
		WHERE NOT EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = $1)`, slot); err != nil {
		return fmt.Errorf("create a replication slot: %w", err)
	}
	port, err := first.choosePort(false)
	if err != nil {
		return err
	}
	m := i.machine
	out, err := m.asOwner(m.command(ctx, "pg_basebackup", "-D", data, "-h", m.sockets(), "-p", strconv.Itoa(port),
		"-U", "postgres", "--no-password", "--checkpoint=fast", "--wal-method=stream", "--no-sync", "--slot="+slot)).CombinedOutput()
	if err != nil {
		return fmt.Errorf("pg_basebackup: %w: %s", err, lastLine(out))
	}
	return m.write(filepath.Join(data, "standby.signal"), "")
}

// answers tells that the server takes connections.
func (p *process) answers(ctx context.Context) error {
	conn, err := p.connect(ctx, "postgres")
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

// follows tells that a standby gets what the first server writes.
func (p *process) follows(ctx context.Context) error {
	deadline := time.Now().Add(startWait)
	for {
		var streaming bool
		err := p.query(ctx, &streaming, "SELECT pg_is_in_recovery() AND EXISTS (SELECT FROM pg_stat_wal_receiver WHERE status = 'streaming')")
		if err != nil || streaming {
			return err
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return errors.New("it does not follow the first server")
		}
		time.Sleep(startInterval)
	}
}

// awaitReplay waits until a standby has what the first server has written, or can go
// no further with its present settings.
func (p *process) awaitReplay(ctx context.Context, first *process) error {
	var written string
	if err := first.query(ctx, &written, "SELECT pg_current_wal_lsn()::text"); err != nil {
		return err
	}
	deadline := time.Now().Add(startWait)
	for {
		var done bool
		// One that does not answer is restarted at once.
		err := p.query(ctx, &done, "SELECT pg_is_wal_replay_paused() OR pg_last_wal_replay_lsn() >= $1::pg_lsn", written)
		if err != nil || done {
			return nil //nolint:nilerr // See above.
		}
		if time.Now().After(deadline) {
			return errors.New("it lags behind the first server, and is restarted with its new settings later")
		}
		time.Sleep(startInterval)
	}
}

// queryTimeout tells a server that hangs from one that works.
const queryTimeout = 5 * time.Second

func (p *process) query(ctx context.Context, into any, sql string, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	conn, err := p.connect(ctx, "postgres")
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return conn.QueryRow(ctx, sql, args...).Scan(into)
}

// connect connects as the superuser by the socket. What it says there is not logged,
// whatever the plan logs: there are passwords in it.
func (p *process) connect(ctx context.Context, database string) (*pgx.Conn, error) {
	port, err := p.choosePort(false)
	if err != nil {
		return nil, err
	}
	config, err := pgx.ParseConfig("sslmode=disable")
	if err != nil {
		return nil, err
	}
	config.Host, config.Port, config.User, config.Database = p.instance.machine.sockets(), uint16(port), "postgres", database
	config.Fallbacks, config.ConnectTimeout = nil, queryTimeout
	config.RuntimeParams = map[string]string{
		"application_name": "operator", "log_statement": "none", "log_duration": "off", "log_min_duration_statement": "-1",
		"log_min_error_statement": "panic", "statement_timeout": "0", "default_transaction_read_only": "off",
	}
	return pgx.ConnectConfig(ctx, config)
}

// Used is how many bytes the server with the fullest disk has on it.
func (i *Instance) Used() (int64, error) {
	var most int64
	for n := range len(i.plan(1)) {
		var sum int64
		err := filepath.WalkDir(filepath.Join(i.dir, strconv.Itoa(n), "data"), func(_ string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return ignoreGone(err)
			}
			info, err := e.Info()
			if err == nil {
				sum += info.Size()
			}
			return ignoreGone(err)
		})
		if err != nil {
			return 0, err
		}
		most = max(most, sum)
	}
	return most, nil
}

// ignoreGone is for files that a server removes meanwhile.
func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func lastLine(out []byte) string {
	text := strings.TrimSpace(string(out))
	return text[strings.LastIndexByte(text, '\n')+1:]
}
