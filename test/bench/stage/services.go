package stage

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// deliverers is how many statuses the data services write at once.
const deliverers = 16

// deliver plays the data services on the control plane: each new object is said
// to run, once.
func (s *Stage) deliver(ctx context.Context, workers int) error {
	queue := &fifo{more: make(chan struct{}, 1)}
	s.SeenControl.onAdded(func(r schema.GroupVersionResource, o Sight) {
		queue.add(func() error { return s.Report(ctx, r, o.Namespace, o.Name, "Running") })
	})
	for range workers {
		go func() {
			for job := queue.take(ctx); job != nil; job = queue.take(ctx) {
				// One that fails is missed by who waits for its status.
				_ = job()
			}
		}()
	}
	return nil
}

// Report writes the status of an object on the control plane.
func (s *Stage) Report(ctx context.Context, r schema.GroupVersionResource, namespace, name, clusterStatus string) error {
	patch, err := json.Marshal(map[string]any{"status": map[string]any{
		"managed": map[string]any{"clusterStatus": clusterStatus, "readyReplicas": 1},
		"conditions": []any{
			map[string]any{"type": "Synced", "status": "True", "reason": "ReconcileSuccess"},
			map[string]any{"type": "Ready", "status": "True", "reason": "Available"},
		},
	}})
	if err != nil {
		return err
	}
	_, err = s.Control.Resource(r).Namespace(namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// fifo is a queue without a bound.
type fifo struct {
	mu   sync.Mutex
	jobs []func() error
	more chan struct{}
}

func (q *fifo) add(job func() error) {
	q.mu.Lock()
	q.jobs = append(q.jobs, job)
	q.mu.Unlock()
	q.wake()
}

func (q *fifo) wake() {
	select {
	case q.more <- struct{}{}:
	default:
	}
}

// take is nil when ctx has ended.
func (q *fifo) take(ctx context.Context) func() error {
	for {
		q.mu.Lock()
		if len(q.jobs) > 0 {
			job := q.jobs[0]
			if q.jobs = q.jobs[1:]; len(q.jobs) > 0 {
				q.wake()
			}
			q.mu.Unlock()
			return job
		}
		q.mu.Unlock()
		select {
		case <-q.more:
		case <-ctx.Done():
			return nil
		}
	}
}

func gitCommand(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	return cmd
}

func withJSON(config *rest.Config) *rest.Config {
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	config.ContentType, config.AcceptContentTypes = "application/json", "application/json"
	return config
}
