package claim

import "sync"

// gate counts who is at work, and lets nobody in once it is closed.
//
// It is what ending a controller waits for. To wait until all its workers have
// returned would be to wait forever, now and then: controller-runtime's priority
// queue can lock itself up when it is shut down
// (kubernetes-sigs/controller-runtime#3538). That is mended in v0.25, which needs
// the libraries of Kubernetes 1.37. What is left behind then does nothing any more.
type gate struct {
	mu     sync.Mutex
	closed bool
	inside sync.WaitGroup
}

func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.inside.Add(1)
	}
	return !g.closed
}

func (g *gate) leave() { g.inside.Done() }

// close returns when nobody is at work any more.
func (g *gate) close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.inside.Wait()
}
