package env

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"
)

const (
	// startDeadline is generous: a cold machine under load reads 250 MB from
	// its disk first.
	startDeadline = 2 * time.Minute
	// stopDeadline is longer than what the components give themselves, 20 seconds: who is
	// killed gives no Lease back.
	stopDeadline  = time.Minute
	readyInterval = 25 * time.Millisecond
)

// A Process is one part of an environment that runs as a child process. It can
// be stopped, killed and started again, with the same arguments, port and data.
// Its methods may be called from several goroutines.
type Process struct {
	Name    string // as in the log's name, for example "app-kube-apiserver"
	LogPath string // of the file that its output is appended to

	part    string
	path    string
	args    []string
	env     []string
	dir     string
	ready   func(ctx context.Context) error // nil once it can be used
	spawner *Spawner
	// readyURL is what ready asks, if it asks a URL.
	readyURL *url.URL

	mu  sync.Mutex
	run *run
}

// A run is one life of a process.
type run struct {
	cmd  *exec.Cmd
	log  int64         // size of the log when it began
	done chan struct{} // closed when it has ended
	err  error         // set before done is closed
}

// AddArgs adds arguments, with which it runs from its next start on.
func (p *Process) AddArgs(args ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.args = slices.Concat(p.args, args)
}

// PID is the process id, or 0 when the process does not run.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run == nil || p.run.ended() {
		return 0
	}
	return p.run.cmd.Process.Pid
}

// Done is closed when the process ends. It belongs to the present run: ask
// again after a Start. It is nil when the process was never started.
func (p *Process) Done() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run == nil {
		return nil
	}
	return p.run.done
}

// ExitCode is that of a process that has ended: -1 when a signal ended it, and
// when it runs or never ran.
func (p *Process) ExitCode() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run == nil || !p.run.ended() {
		return -1
	}
	return p.run.cmd.ProcessState.ExitCode()
}

// ReadyURL is another path of the server that is asked whether the process is
// ready; "" if there is none.
func (p *Process) ReadyURL(path string) string {
	if p.readyURL == nil {
		return ""
	}
	u := *p.readyURL
	u.Path = path
	return u.String()
}

// Ready is nil when the process can be used, as far as it has a way to say so.
func (p *Process) Ready(ctx context.Context) error {
	switch {
	case p.PID() == 0:
		return fmt.Errorf("%s does not run", p.Name)
	case p.ready == nil:
		return nil
	default:
		return p.ready(ctx)
	}
}

// Start starts the process and returns when it is ready. When that fails the
// process does not run, and the error holds the end of its log. It is an error
// to start a process that runs.
func (p *Process) Start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startDeadline)
	defer cancel()
	r, err := p.spawn()
	if err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	if err := p.wait(ctx, r); err != nil {
		r.signal(syscall.SIGKILL)
		<-r.done
		return fmt.Errorf("start %s: %w\n%s\nIts log is %s", p.Name, err, indent(lastLines(p.output(r), 15)), p.LogPath)
	}
	return nil
}

// runToEnd starts the process and returns when it has ended, nil if it ended
// well.
func (p *Process) runToEnd(ctx context.Context) error {
	r, err := p.spawn()
	if err != nil {
		return fmt.Errorf("run %s: %w", p.Name, err)
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		r.signal(syscall.SIGKILL)
		<-r.done
		return fmt.Errorf("run %s: %w", p.Name, context.Cause(ctx))
	}
	if r.err != nil {
		return fmt.Errorf("run %s: %w\n%s\nIts log is %s", p.Name, r.err, indent(lastLines(p.output(r), 15)), p.LogPath)
	}
	return nil
}

func (p *Process) spawn() (*run, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run != nil && !p.run.ended() {
		return nil, errors.New("it runs already")
	}
	log, err := os.OpenFile(p.LogPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	size, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(p.path, p.args...)
	cmd.Env = append(baseEnvironment(p.dir), p.env...)
	if p.part != "" {
		cmd.Env = append(cmd.Env, collectSeldom, collectBefore)
	}
	cmd.Dir = p.dir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = ChildAttributes()
	if err := p.spawner.Start(cmd); err != nil {
		return nil, err
	}
	r := &run{cmd: cmd, log: size, done: make(chan struct{})}
	go func() {
		r.err = cmd.Wait()
		close(r.done)
	}()
	p.run = r
	return r, nil
}

// collectSeldom is for the parts, which are not what is tested, and for who builds them: an API
// server takes a third less CPU until it is ready, and 110 MiB more.
const collectSeldom = "GOGC=400"

// collectBefore keeps that within bounds: with 50,000 claims an API server had 7 GiB. It
// is more than one needs with 100,000, as at 6 GiB it did little but collect, and the
// agents lost their leases.
const collectBefore = "GOMEMLIMIT=9GiB"

// baseEnvironment keeps from the parts what a user has set for others: most of
// them read flags from variables, too.
func baseEnvironment(home string) []string {
	return []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir(), "HOME=" + home}
}

// wait returns nil when the process is ready, and an error when it ended or
// ctx did.
func (p *Process) wait(ctx context.Context, r *run) error {
	var last error
	for {
		if p.ready == nil {
			return nil
		}
		if last = p.ready(ctx); last == nil && !r.ended() {
			return nil
		}
		select {
		case <-r.done:
			if bytes.Contains(p.output(r), []byte("address already in use")) {
				return errPortTaken
			}
			return fmt.Errorf("it ended at once: %w", r.err)
		case <-ctx.Done():
			return fmt.Errorf("it is not ready: %w (%w)", last, context.Cause(ctx))
		case <-time.After(readyInterval):
		}
	}
}

// output is what the run has logged so far.
func (p *Process) output(r *run) []byte {
	log, err := os.ReadFile(p.LogPath)
	if err != nil || int64(len(log)) < r.log {
		return nil
	}
	return log[r.log:]
}

// Stop asks the process to end, kills it when it has not after a while or when
// ctx is done, and returns when it is gone. Stopping what does not run is no
// error.
func (p *Process) Stop(ctx context.Context) error {
	r := p.current()
	if r == nil {
		return nil
	}
	r.signal(syscall.SIGTERM)
	deadline := time.NewTimer(stopDeadline)
	defer deadline.Stop()
	select {
	case <-r.done:
		return nil
	case <-deadline.C:
	case <-ctx.Done():
	}
	return p.Kill()
}

// Kill ends the process with SIGKILL and returns when it is gone.
func (p *Process) Kill() error {
	r := p.current()
	if r == nil {
		return nil
	}
	r.signal(syscall.SIGKILL)
	select {
	case <-r.done:
		return nil
	case <-time.After(stopDeadline):
		return fmt.Errorf("kill %s: process %d is still there", p.Name, r.cmd.Process.Pid)
	}
}

// Signal sends a signal to the process: SIGSTOP and SIGCONT make it hang and go
// on.
func (p *Process) Signal(s syscall.Signal) error {
	r := p.current()
	if r == nil {
		return fmt.Errorf("signal %s: it does not run", p.Name)
	}
	if err := r.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("signal %s: %w", p.Name, err)
	}
	return nil
}

// current is the run under way, or nil.
func (p *Process) current() *run {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run == nil || p.run.ended() {
		return nil
	}
	return p.run
}

// signal has no error: the only one there is says that the process has ended.
func (r *run) signal(s syscall.Signal) { _ = r.cmd.Process.Signal(s) }

func (r *run) ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}
