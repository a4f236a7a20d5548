package chaos

import (
	"context"
	"sync"
	"syscall"
	"time"

	"gitbind.dev/test/e2e/platform"
	"gitbind.dev/test/env"
	"gitbind.dev/test/proxy"
)

// injector makes things go wrong, and good again.
type injector struct {
	platform *platform.Platform
	say      func(format string, args ...any)
	steps    steps

	mu sync.Mutex
	// down are the processes that a fault keeps from being started.
	down map[string]bool
}

// inject carries out a plan, until it or ctx ends. Then all is good again.
func (i *injector) inject(ctx context.Context, plan []Fault) {
	began := time.Now()
	var wg sync.WaitGroup
	for _, f := range plan {
		select {
		case <-ctx.Done():
		case <-time.After(time.Until(began.Add(f.At))):
			wg.Go(func() { i.fault(ctx, f) })
		}
	}
	wg.Wait()
}

func (i *injector) fault(ctx context.Context, f Fault) {
	what := f.Process
	if what == "" {
		what = f.Link.String()
	}
	if f.After != "" {
		i.steps.await(ctx, f.After)
		sleep(ctx, f.Delay)
	}
	i.say("%s %s for %s%s", f.Kind, what, f.For.Round(time.Millisecond), f.when())
	if f.Process == "" {
		i.set(f.Link, proxy.Mode(f.Kind))
		sleep(ctx, f.For)
		i.set(f.Link, proxy.Open)
		return
	}
	p := i.process(f.Process)
	if p == nil {
		i.say("there is no process %s", f.Process)
		return
	}
	if f.Kind == Stop {
		if err := p.Signal(syscall.SIGSTOP); err != nil {
			return
		}
		sleep(ctx, f.For)
		_ = p.Signal(syscall.SIGCONT)
		return
	}
	i.hold(f.Process, true)
	if err := p.Kill(); err != nil {
		i.say("%v", err)
	}
	sleep(ctx, f.For)
	i.hold(f.Process, false)
}

func (i *injector) set(l platform.Link, mode proxy.Mode) {
	if err := i.platform.Network.Set(l, mode); err != nil {
		i.say("%v", err)
	}
}

func (i *injector) process(name string) *env.Process {
	for _, p := range i.platform.Processes() {
		if p.Name == name {
			return p
		}
	}
	return nil
}

func (i *injector) hold(name string, down bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.down[name] = down
}

func (i *injector) held(name string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.down[name]
}

// keep starts what has ended anew, as a cluster does with its pods, until ctx
// ends.
func (i *injector) keep(ctx context.Context) {
	var wg sync.WaitGroup
	starting := map[string]bool{}
	var mu sync.Mutex
	for ctx.Err() == nil {
		for _, p := range i.platform.Processes() {
			mu.Lock()
			busy := starting[p.Name]
			mu.Unlock()
			if p.PID() != 0 || busy || i.held(p.Name) || p.Done() == nil {
				continue
			}
			mu.Lock()
			starting[p.Name] = true
			mu.Unlock()
			code := p.ExitCode()
			wg.Go(func() {
				err := p.Start(ctx)
				mu.Lock()
				delete(starting, p.Name)
				mu.Unlock()
				switch {
				case err != nil && ctx.Err() == nil:
					i.say("%s does not start: %.300v", p.Name, err)
				case code >= 0:
					i.say("%s had ended with exit code %d and was started anew", p.Name, code)
				}
			})
		}
		sleep(ctx, 100*time.Millisecond)
	}
	wg.Wait()
}

// allRun reports whether no process is missing.
func (i *injector) allRun() bool {
	for _, p := range i.platform.Processes() {
		if p.PID() == 0 {
			return false
		}
	}
	return true
}
