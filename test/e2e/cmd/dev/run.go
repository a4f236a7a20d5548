package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"gitbind.dev/test/e2e/platform"
	"gitbind.dev/test/env"
)

// endInterval is between two looks whether something has ended.
const endInterval = 100 * time.Millisecond

// run keeps a component running as a kubelet would: killed, it is restarted. One
// that ends by itself is left, so that its log can be read.
func (l *loop) run(ctx context.Context, component string) error {
	p, chosen, err := l.attach()
	if err != nil {
		return err
	}
	program, arguments, err := l.program(ctx, p, component, chosen)
	if err != nil {
		return err
	}
	// The lock tells that the file's content is true.
	pid, err := os.OpenFile(l.pidFile(component), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer pid.Close()
	if err := syscall.Flock(int(pid.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("run %s: it runs already", component)
	}
	// Nobody takes what an earlier one has left there for a process of ours.
	if err := pid.Truncate(0); err != nil {
		return err
	}
	gone := orphaned(ctx)
	for {
		// It shares our process group, and so usually gets the signals that end us.
		cmd := exec.Command(program.Path, arguments...)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Start(); err != nil {
			return err
		}
		if err := os.WriteFile(l.pidFile(component), []byte(strconv.Itoa(cmd.Process.Pid)), 0o600); err != nil {
			return errors.Join(err, cmd.Process.Kill())
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		select {
		case <-ended:
		case <-ctx.Done():
			_ = cmd.Process.Signal(syscall.SIGTERM)
			<-ended
		case <-gone:
			return errors.Join(cmd.Process.Signal(syscall.SIGTERM), <-ended)
		}
		switch status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); {
		case ctx.Err() != nil, ok && status.Signaled() && (status.Signal() == syscall.SIGTERM || status.Signal() == syscall.SIGINT):
			// It was told to end, perhaps before we were.
			return nil
		case !ok || !status.Signaled():
			return fmt.Errorf("%s ended by itself: %s", component, cmd.ProcessState)
		}
		fmt.Printf("%s was killed: restarting it\n", component)
	}
}

func (l *loop) program(ctx context.Context, p *platform.Platform, component string, chosen ports) (env.Program, []string, error) {
	switch component {
	case backend:
		program, err := p.BackendProgram(ctx)
		return program, program.Args([]int{chosen[backend], chosen[backendHealth]}), err
	case gitbridge:
		program, err := p.BridgeProgram(ctx)
		return program, agentArguments(program, chosen, component), err
	default:
		program, err := p.KonnectorProgram(ctx, env.App)
		return program, agentArguments(program, chosen, component), err
	}
}

func agentArguments(program env.Program, chosen ports, component string) []string {
	return append(program.Args([]int{chosen[component], 0}), "--metrics-listen="+address(chosen[component+metrics]))
}

// orphaned is closed when the process that has started us is gone: a Tilt that was
// killed has told nobody.
func orphaned(ctx context.Context) <-chan struct{} {
	parent, gone := os.Getppid(), make(chan struct{})
	go func() {
		for ctx.Err() == nil && os.Getppid() == parent {
			time.Sleep(time.Second)
		}
		if ctx.Err() == nil {
			close(gone)
		}
	}()
	return gone
}

// kill leaves a component no time to tidy up.
func (l *loop) kill(_ context.Context, component string) error {
	file, runs, err := l.pid(component)
	if err != nil {
		return err
	}
	defer file.Close()
	if !runs {
		return fmt.Errorf("kill %s: it does not run", component)
	}
	var pid int
	if _, err := fmt.Fscan(file, &pid); err != nil {
		return fmt.Errorf("kill %s: %w", component, err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill %s, process %d: %w", component, pid, err)
	}
	fmt.Printf("%s, process %d, was killed.\n", component, pid)
	return nil
}

// pid is the file with the process id of a component, and whether it runs.
func (l *loop) pid(component string) (*os.File, bool, error) {
	file, err := os.OpenFile(l.pidFile(component), os.O_CREATE|os.O_RDONLY, 0o600)
	if err != nil {
		return nil, false, err
	}
	return file, syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) != nil, nil
}

// wait returns when nothing of the loop runs: Tilt ends before what it has told to.
func (l *loop) wait(ctx context.Context) error {
	for _, component := range []string{backend, gitbridge, konnector, clusters} {
		for {
			runs, err := l.runs(component)
			if err != nil {
				return err
			}
			if !runs {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("%s of this checkout's loop still runs: end its Tilt first", component)
			case <-time.After(endInterval):
			}
		}
	}
	return nil
}

func (l *loop) runs(component string) (bool, error) {
	if component == clusters {
		return env.Runs(l.dir), nil
	}
	file, runs, err := l.pid(component)
	if err == nil {
		file.Close()
	}
	return runs, err
}

func (l *loop) pidFile(component string) string { return filepath.Join(l.bin, component+".pid") }
