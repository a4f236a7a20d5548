package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"gitbind.dev/test/env"
)

const (
	// startWait is how long a start is waited for. A server that takes longer is
	// started all the same, and asked again later.
	startWait     = 10 * time.Second
	startInterval = 20 * time.Millisecond
	// fastStop is how long a server has to end in order, and immediateStop how long
	// without.
	fastStop      = 10 * time.Second
	immediateStop = 5 * time.Second
)

// A process is one server: a folder with its data, log and port, and maybe a process.
type process struct {
	instance *Instance
	dir      string

	mu   sync.Mutex
	port int
	run  *run
}

// A run is one life of a server.
type run struct {
	pid      int
	done     chan struct{} // closed when it has ended
	settings string        // with which it was started
	log      int64         // size of the log when it began
	ready    bool          // it has answered once
	stopped  bool          // by us
}

func (r *run) ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

func (p *process) data() string    { return filepath.Join(p.dir, "data") }
func (p *process) logPath() string { return filepath.Join(p.dir, "log") }

// current is the run under way, or nil.
func (p *process) current() *run {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run == nil || p.run.ended() {
		return nil
	}
	return p.run
}

// Port is where it listens, or would.
func (p *process) choosePort(another bool) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	path := filepath.Join(p.dir, "port")
	if p.port == 0 {
		// Clients go on with what they were told before a restart.
		text, _ := os.ReadFile(path)
		p.port, _ = strconv.Atoi(string(text))
	}
	if p.port != 0 && !another {
		return p.port, nil
	}
	port, err := env.FreePort()
	if err != nil {
		return 0, err
	}
	p.port = port
	return port, p.instance.machine.write(path, strconv.Itoa(port))
}

// start starts the server, whose settings are written, and returns when it answers,
// when it has ended, which is an error with its words, or after a while.
func (p *process) start(ctx context.Context, settings string) error {
	if err := p.awaitPredecessor(ctx); err != nil {
		return err
	}
	log, err := os.OpenFile(p.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	size, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	m := p.instance.machine
	// The server outlives the call, and ends with the machine.
	cmd := m.asOwner(m.command(context.WithoutCancel(ctx), "postgres", "-D", p.data()))
	cmd.Stdout, cmd.Stderr = log, log
	endWithUs(cmd.SysProcAttr)
	if err := m.spawner.Start(cmd); err != nil {
		return fmt.Errorf("start PostgreSQL: %w", err)
	}
	r := &run{pid: cmd.Process.Pid, done: make(chan struct{}), settings: settings, log: size}
	p.mu.Lock()
	p.run = r
	p.mu.Unlock()
	go func() {
		_ = cmd.Wait()
		close(r.done)
		p.mu.Lock()
		byItself := r.ready && !r.stopped
		p.mu.Unlock()
		if byItself {
			p.instance.ended()
		}
	}()
	return p.await(ctx, r)
}

// await waits until a server that was started answers.
func (p *process) await(ctx context.Context, r *run) error {
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	for {
		if p.answers(ctx) == nil {
			return nil
		}
		select {
		case <-r.done:
			return p.failure(r)
		case <-ctx.Done():
			return errStarting
		case <-time.After(startInterval):
		}
	}
}

var (
	errStarting  = errors.New("the server is starting")
	errPortTaken = errors.New("its port is in use")
)

// failure says in the server's words why it did not start.
func (p *process) failure(r *run) error {
	log, err := os.ReadFile(p.logPath())
	if err != nil {
		return err
	}
	said := words(log[min(r.log, int64(len(log))):])
	if strings.Contains(said, "Address already in use") {
		return fmt.Errorf("%w: %s", errPortTaken, said)
	}
	return fmt.Errorf("the server does not start: %s", said)
}

var prefix = regexp.MustCompile(`^(?:\S+ \S+ UTC \[\d+\] [A-Z]+:  |postgres: )`)

// words are the last of what a server has said, without times and process ids.
func words(log []byte) string {
	var said []string
	for line := range strings.Lines(string(log)) {
		if line = prefix.ReplaceAllString(strings.TrimSpace(line), ""); line != "" && line != "database system is shut down" {
			said = append(said, line)
		}
	}
	return strings.Join(said[max(0, len(said)-4):], "; ")
}

// awaitPredecessor waits for a server on the same data whose operator has ended: the
// kernel has told it to end.
func (p *process) awaitPredecessor(ctx context.Context) error {
	text, err := os.ReadFile(filepath.Join(p.data(), "postmaster.pid"))
	if err != nil {
		return nil //nolint:nilerr // There is none.
	}
	pid, _, _ := strings.Cut(string(text), "\n")
	for deadline := time.Now().Add(fastStop); ; {
		// The number may be that of another process by now.
		if cwd, err := os.Readlink("/proc/" + pid + "/cwd"); err != nil || cwd != p.data() {
			return nil
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return fmt.Errorf("another server, process %s, works on %s", pid, p.data())
		}
		time.Sleep(startInterval)
	}
}

// stop stops the server and returns when it is gone.
func (p *process) stop() {
	r := p.current()
	if r == nil {
		return
	}
	p.mu.Lock()
	r.stopped = true
	p.mu.Unlock()
	for _, step := range []struct {
		signal syscall.Signal
		wait   time.Duration
	}{{syscall.SIGINT, fastStop}, {syscall.SIGQUIT, immediateStop}, {syscall.SIGKILL, immediateStop}} {
		_ = syscall.Kill(r.pid, step.signal)
		select {
		case <-r.done:
			return
		case <-time.After(step.wait):
		}
	}
}

// reload has the server read its settings again.
func (p *process) reload() {
	if r := p.current(); r != nil {
		_ = syscall.Kill(r.pid, syscall.SIGHUP)
	}
}
