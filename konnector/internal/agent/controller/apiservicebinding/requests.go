package apiservicebinding

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"

	"gitbind.dev/konnector/internal/agent/repository"
)

// requests are for what is not an event of the API server.
type requests struct {
	mu sync.Mutex
	// ctx is the controller's; nil before it starts.
	ctx      context.Context
	queue    workqueue.TypedRateLimitingInterface[ctrl.Request]
	followed map[string]followed
	// begun is called when the controller has started.
	begun func()
}

type followed struct {
	repository *repository.Repository
	cancel     func()
}

func (r *requests) start(ctx context.Context, q workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
	r.mu.Lock()
	r.ctx, r.queue = ctx, q
	r.mu.Unlock()
	r.begun()
	return nil
}

func (r *requests) context() context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ctx
}

func (r *requests) add(binding string, after time.Duration) {
	r.mu.Lock()
	q := r.queue
	r.mu.Unlock()
	if q != nil {
		q.AddAfter(ctrl.Request{NamespacedName: types.NamespacedName{Name: binding}}, after)
	}
}

// follow looks at a binding again when its export changes in a repository; nil
// for no longer.
func (r *requests) follow(binding string, repo *repository.Repository) {
	r.mu.Lock()
	before, ok := r.followed[binding]
	r.mu.Unlock()
	if ok && before.repository == repo {
		return
	}
	if ok {
		before.cancel()
	}
	if repo == nil {
		r.mu.Lock()
		delete(r.followed, binding)
		r.mu.Unlock()
		return
	}
	cancel := repo.Subscribe(binding, func(c repository.Change) {
		if c.Export || c.Request || c.Recovered {
			r.add(binding, 0)
		}
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.followed == nil {
		r.followed = map[string]followed{}
	}
	r.followed[binding] = followed{repo, cancel}
}
