package chaos

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// Step is one of the acknowledged steps of a change. What was killed between two of
// them must go on from what the others know.
type Step string

// The steps, in the order in which a change makes them.
const (
	Written   Step = "an object is written in the app cluster"
	Pushed    Step = "main has moved"
	Applied   Step = "an object is written on the control plane"
	Rotated   Step = "a Secret is written on the control plane"
	Answered  Step = "status has moved"
	Delivered Step = "a Secret is written in the app cluster"
)

var allSteps = []Step{Written, Pushed, Applied, Rotated, Answered, Delivered}

// stepAtMost is how long a fault waits for its step. It comes without it then.
const stepAtMost = time.Second

// steps tells when a step is made next, seen from the outside.
type steps struct {
	mu   sync.Mutex
	next map[Step]chan struct{}
}

// await waits until a step is made, at most for stepAtMost.
func (s *steps) await(ctx context.Context, step Step) {
	s.mu.Lock()
	if s.next == nil {
		s.next = map[Step]chan struct{}{}
	}
	made := s.next[step]
	if made == nil {
		made = make(chan struct{})
		s.next[step] = made
	}
	s.mu.Unlock()
	select {
	case <-made:
	case <-ctx.Done():
	case <-time.After(stepAtMost):
	}
}

func (s *steps) made(step Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if made := s.next[step]; made != nil {
		close(made)
		delete(s.next, step)
	}
}

func (s *steps) wanted(step Step) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next[step] != nil
}

// watch looks at both clusters and the repository until ctx ends.
func (s *steps) watch(ctx context.Context, sides *sides) {
	var watchers sync.WaitGroup
	defer watchers.Wait()
	for _, a := range sides.apis {
		watchers.Go(func() { s.watchObjects(ctx, sides.app, a.resource, Written) })
		watchers.Go(func() { s.watchObjects(ctx, sides.control, a.resource, Applied) })
	}
	watchers.Go(func() { s.watchObjects(ctx, sides.app, secrets, Delivered) })
	watchers.Go(func() { s.watchObjects(ctx, sides.control, secrets, Rotated) })
	watchers.Go(func() { s.watchBranch(ctx, sides.host.repository, "main", Pushed) })
	watchers.Go(func() { s.watchBranch(ctx, sides.host.repository, "status", Answered) })
}

func (s *steps) watchObjects(ctx context.Context, client dynamic.Interface, resource schema.GroupVersionResource, step Step) {
	for ctx.Err() == nil {
		// An API server may be down: then the next one is asked soon.
		if w, err := client.Resource(resource).Watch(ctx, metav1.ListOptions{}); err == nil {
			for range w.ResultChan() {
				s.made(step)
			}
		}
		sleep(ctx, 100*time.Millisecond)
	}
}

// watchBranch polls the file of a branch while somebody waits for it: what the
// host tells of its branches may be cut off by a fault.
func (s *steps) watchBranch(ctx context.Context, repository, branch string, step Step) {
	path := filepath.Join(repository, "refs", "heads", branch)
	for last := ""; ctx.Err() == nil; sleep(ctx, 2*time.Millisecond) {
		if !s.wanted(step) {
			last = ""
			continue
		}
		// A branch that was packed has no file until it moves.
		commit, _ := os.ReadFile(path)
		if last != "" && last != string(commit) {
			s.made(step)
		}
		last = string(commit)
	}
}
