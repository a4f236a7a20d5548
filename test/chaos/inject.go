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
	fail     func(format string, args ...any)
	steps    steps
	sides    *sides
	// severe is held while a clock is wrong, and while something is restored: not both at a time.
	severe sync.Mutex

	mu sync.Mutex
	// down is how many faults keep a process from being started, and starting are those that
	// are started.
	down     map[string]int
	starting map[string]bool
	// ended counts the faults that have ended, of the kinds that are counted.
	ended map[Kind]int
	// busy are locked while a fault of that process lasts.
	busy map[string]*sync.Mutex
	// restoreSnapshot puts a cluster back to a snapshot.
	restoreSnapshot func(context.Context, Fault)
}

func newInjector(r *run) *injector {
	return &injector{
		platform: r.Platform, say: r.say,
		fail: func(format string, args ...any) {
			r.say(format, args...)
			r.journal.giveUp("", format, args...)
		},
		down: map[string]int{}, starting: map[string]bool{}, ended: map[Kind]int{}, busy: map[string]*sync.Mutex{},
	}
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
	if f.After != "" {
		i.steps.await(ctx, f.After)
		sleep(ctx, f.Delay)
	}
	switch f.Kind {
	case Restore:
		i.restore(ctx, f)
		return
	case Clock:
		i.wrongClock(ctx, f)
		return
	}
	i.say("%s", f.what())
	if f.Kind == RestoreEtcd {
		i.restoreSnapshot(ctx, f)
		return
	}
	if f.Process == "" {
		i.set(f.Link, proxy.Mode(f.Kind))
		sleep(ctx, f.For)
		i.set(f.Link, proxy.Open)
		return
	}
	defer i.alone(f.Process)()
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

// alone waits until nobody else does anything to a process, and keeps them from it until what
// it returns is called.
func (i *injector) alone(name string) (end func()) {
	i.mu.Lock()
	if i.busy[name] == nil {
		i.busy[name] = &sync.Mutex{}
	}
	m := i.busy[name]
	i.mu.Unlock()
	m.Lock()
	return m.Unlock
}

func (i *injector) hold(name string, down bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if down {
		i.down[name]++
	} else {
		i.down[name]--
	}
}

// begin reports whether a process is to be started now, and says that somebody does.
func (i *injector) begin(name string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.starting[name] || i.down[name] > 0 {
		return false
	}
	i.starting[name] = true
	return true
}

func (i *injector) begun(name string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.starting, name)
}

func (i *injector) isStarting(name string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.starting[name]
}

// count says that a fault has ended.
func (i *injector) count(f Fault) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ended[f.Kind]++
}

func (i *injector) counted(k Kind) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.ended[k]
}

// keep restarts what has ended, as a cluster does with its pods, until ctx
// ends.
func (i *injector) keep(ctx context.Context) {
	var wg sync.WaitGroup
	for ctx.Err() == nil {
		for _, p := range i.platform.Processes() {
			if p.PID() != 0 || p.Done() == nil || !i.begin(p.Name) {
				continue
			}
			code := p.ExitCode()
			wg.Go(func() {
				err := p.Start(ctx)
				i.begun(p.Name)
				switch {
				case err != nil && ctx.Err() == nil:
					i.say("%s does not start: %.300v", p.Name, err)
				case code >= 0:
					i.say("%s had ended with exit code %d and was restarted", p.Name, code)
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
