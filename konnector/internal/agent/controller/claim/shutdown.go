package claim

import "sync"

// shutdownLatch counts who is at work, and lets nobody in once it is closed.
//
// It is what ending a controller waits for. To wait until all its workers have
// returned would be to wait forever, now and then: controller-runtime's priority
// queue can lock itself up when it is shut down
// (kubernetes-sigs/controller-runtime#3538). That is mended in v0.25, which needs
// the libraries of Kubernetes 1.37. What is left behind then does nothing any more.
type shutdownLatch struct {
	mu     sync.Mutex
	closed bool
	inside sync.WaitGroup
}

func (l *shutdownLatch) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.inside.Add(1)
	}
	return !l.closed
}

func (l *shutdownLatch) leave() { l.inside.Done() }

// close returns when nobody is at work any more.
func (l *shutdownLatch) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.inside.Wait()
}
