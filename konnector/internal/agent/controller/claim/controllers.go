package claim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/semaphore"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	metadataclient "k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/informers"
	"gitbind.dev/konnector/internal/agent/budget"
	"gitbind.dev/konnector/internal/agent/inputs"
	"gitbind.dev/konnector/internal/agent/metrics"
	"gitbind.dev/konnector/internal/agent/repository"
)

// Controllers runs one controller for each bound API.
type Controllers struct {
	// Config is as whom the objects are watched.
	Config *rest.Config
	// Cached reads others than the claims from a cache, Live from the API server.
	Cached   client.Reader
	Live     client.Reader
	Client   client.Client
	Recorder events.EventRecorder
	Logger   logr.Logger
	// Workers is how many claims of one API are worked on at once. While a push
	// is under way they wait together for the next one, so more of them make
	// larger batches.
	Workers int
	// Metrics may be nil.
	Metrics *metrics.Konnector
	// OnChange is called with a binding when Held or Namespaces may say something
	// new, or this process may not do any more what it does. It must not block.
	OnChange func(binding string)

	mu      sync.Mutex
	ended   bool
	running map[string]*running
	// common is made with the first.
	common *common
}

// common is what there is once for the claims of all APIs.
type common struct {
	// bytes bounds what is brought to Git for all claims of a namespace.
	bytes  *byteBudget
	owners *owners
	// large is the room for looks at large claims, by the UID of the Connection: in each of
	// them its Git host is waited for.
	large map[string]*semaphore.Weighted
}

func newCommon(config *rest.Config) (*common, error) {
	owners, err := newOwners(config)
	if err != nil {
		return nil, err
	}
	return &common{newByteBudget(), owners, map[string]*semaphore.Weighted{}}, nil
}

func (c *common) largeOf(connection string) *semaphore.Weighted {
	if c.large[connection] == nil {
		c.large[connection] = newLargeLooks()
	}
	return c.large[connection]
}

type running struct {
	reconciler *reconciler
	cancel     context.CancelFunc
	done       chan struct{}

	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[ctrl.Request]
	// err is why it does not work; set before done is closed.
	err error
}

const (
	// retryFirst and retryMax bound the pauses after errors of the API server.
	retryFirst = 20 * time.Millisecond
	retryMax   = 15 * time.Second
	// maxHeld is how many held files are listed.
	maxHeld = 50
)

// Running reports whether the controller for an API runs.
func (c *Controllers) Running(api API) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.running[api.Binding]
	if r == nil {
		return false
	}
	select {
	case <-r.done:
		return false
	default:
		return r.reconciler.api().Kind == api.Kind
	}
}

// Ensure runs the controller for an API as it is now. The error is what ended
// the one before.
func (c *Controllers) Ensure(ctx context.Context, api API) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return errors.New("the process ends")
	}
	if r := c.running[api.Binding]; r != nil {
		before := r.reconciler.api()
		select {
		case <-r.done:
			delete(c.running, api.Binding)
			if r.err != nil {
				return r.err
			}
		default:
			if before.Kind == api.Kind && before.Repository == api.Repository {
				if before.revision != api.revision {
					r.reconciler.fromCache.delay()
				}
				if before.revision != api.revision || before.Writer != api.Writer || before.Review != api.Review || before.OnRejection != api.OnRejection {
					r.reconciler.current.Store(&api)
					r.enqueueAll(ctx)
				}
				return nil
			}
			c.stop(api.Binding)
		}
	}
	return c.start(ctx, api)
}

// Redefine is called before another definition of an API is installed.
func (c *Controllers) Redefine(binding string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.running[binding]; r != nil {
		r.reconciler.fromCache.delay()
	}
}

func (c *Controllers) start(ctx context.Context, api API) error {
	informer, err := informers.New(c.Config, schema.ParseGroupResource(api.Binding).WithVersion(api.Kind.Version), labels.Everything(), decodeClaim)
	if err != nil {
		return err
	}
	if c.common == nil {
		if c.common, err = newCommon(c.Config); err != nil {
			return err
		}
	}
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	own := &written{}
	noting := newNotingClient(c.Client, own)
	r := &running{
		reconciler: &reconciler{
			claims: cachedClaims{informer.GetStore(), informer.HasSyncedChecker().Done(), run.Done()},
			cached: c.Cached, live: c.Live, client: noting, written: own, reports: slots{most: maxReports}, recorder: c.Recorder,
			numbers:  c.Metrics.Of(api.Repository.ClusterID, api.Binding),
			secrets:  newSecretDelivery(noting),
			held:     newHeldFiles(api.Held, func() { c.OnChange(api.Binding) }),
			rejected: workqueue.NewTypedItemExponentialFailureRateLimiter[contract.Key](rejectedWait, mostRejectedWait),
			writes:   budget.Budget{Most: maxWrites, Every: writeEvery},
			statuses: budget.Budget{Most: maxStatuses, Every: statusEvery},
			untold:   budget.Budget{Most: 1, Every: untoldEvery},
			common:   c.common,
			large:    c.common.largeOf(string(api.Repository.ConnectionUID)),
		},
		cancel: cancel, done: make(chan struct{}),
	}
	r.reconciler.forbidden = func() { c.OnChange(api.Binding) }
	if api.redefined {
		r.reconciler.fromCache.delay()
	}
	objects, err := metadataclient.NewForConfig(c.Config)
	if err != nil {
		cancel()
		return fmt.Errorf("prepare to watch what claims refer to: %w", err)
	}
	r.reconciler.inputs = newInputSender(inputs.New(run, objects, c.Live, r.again), &r.reconciler.pending, c.common.bytes)
	r.reconciler.current.Store(&api)
	kept, err := c.controller(r, informer)
	if err != nil {
		cancel()
		return err
	}
	if c.running == nil {
		c.running = map[string]*running{}
	}
	c.running[api.Binding] = r
	go func() {
		r.err = kept.Start(run)
		cancel()
		r.reconciler.numbers.Forget()
		close(r.done)
		if r.err != nil {
			c.OnChange(api.Binding)
		}
	}()
	return nil
}

// controller works on the objects of an API, and listens to them and to Git.
func (c *Controllers) controller(r *running, informer toolscache.SharedIndexInformer) (controller.Controller, error) {
	binding := r.reconciler.api().Binding
	kept, err := controller.NewTypedUnmanaged("claim", controller.TypedOptions[ctrl.Request]{
		Reconciler:              r.reconciler,
		MaxConcurrentReconciles: c.Workers,
		CacheSyncTimeout:        informers.SyncTimeout,
		SkipNameValidation:      new(true),
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](retryFirst, retryMax),
		Logger:                  c.Logger.WithValues("binding", binding),
	})
	if err != nil {
		return nil, fmt.Errorf("make controller for %s: %w", binding, err)
	}
	placed := &namespaces{onChange: func() { c.OnChange(binding) }}
	objects := source.Informer{Informer: informer, Handler: &arrivals{}, Predicates: []predicate.Predicate{placed.predicate(), r.reconciler.written.predicate()}}
	if err := kept.Watch(&watched{objects, informer}); err != nil {
		return nil, fmt.Errorf("watch %s: %w", binding, err)
	}
	if err := kept.Watch(source.Func(r.followGit)); err != nil {
		return nil, fmt.Errorf("follow %s: %w", binding, err)
	}
	return kept, nil
}

// watched are the objects of an API as long as its controller runs.
type watched struct {
	source.Informer
	informer toolscache.SharedIndexInformer
}

// Start does not wait until all are known.
func (w *watched) Start(ctx context.Context, q workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
	if err := w.Informer.Start(ctx, q); err != nil {
		return err
	}
	go w.informer.RunWithContext(ctx)
	return nil
}

// WaitForSync waits until all are known.
func (w *watched) WaitForSync(ctx context.Context) error {
	select {
	case <-w.informer.HasSyncedChecker().Done():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("list all objects: %w", context.Cause(ctx))
	}
}

// followGit enqueues the claims whose files are there, and from then on those
// of which something changes in Git.
func (r *running) followGit(ctx context.Context, q workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
	r.mu.Lock()
	r.queue = q
	r.mu.Unlock()
	r.reconciler.enqueue = func(key contract.Key) { q.Add(request(key)) }
	api := r.reconciler.api()
	untrack, err := api.Repository.Removals.Track(ctx, api.Binding, tracked{r.reconciler})
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, untrack)
	cancel := api.Repository.Subscribe(api.Binding, func(c repository.Change) {
		add := q.Add
		if c.First {
			add = func(r ctrl.Request) { later(q, r) }
		}
		for _, key := range c.Claims {
			add(request(key))
		}
		for _, secret := range c.Secrets {
			for _, key := range r.reconciler.secrets.known.claimsOf(secret) {
				q.Add(request(key))
			}
		}
		for _, key := range r.reconciler.reviews.of(c.Proposed) {
			q.Add(request(key))
		}
		if c.Recovered {
			// The keys may be others.
			for _, key := range r.reconciler.inputs.maker.Stale(api.Repository.Sender()) {
				q.Add(request(key))
			}
		}
		if c.Observed || c.Recovered {
			for _, key := range r.reconciler.pending.take() {
				q.Add(request(key))
			}
		}
	})
	context.AfterFunc(ctx, cancel)
	r.enqueueAll(ctx)
	return nil
}

// again has the claim of a file looked at again.
func (r *running) again(path string) {
	r.mu.Lock()
	q := r.queue
	r.mu.Unlock()
	if key, err := contract.ParsePath(path); err == nil && q != nil {
		q.Add(request(key))
	}
}

// enqueueAll looks at all claims again, when there is nothing better to do.
func (r *running) enqueueAll(ctx context.Context) {
	r.mu.Lock()
	q := r.queue
	r.mu.Unlock()
	api := r.reconciler.api()
	view, err := api.Repository.View(ctx)
	if err != nil || q == nil {
		// Nothing is known of the files yet: they will be told as news.
		return
	}
	for entry := range view.Main.List(contract.ClaimsPath(api.Binding)) {
		if key, err := contract.ParsePath(entry.Path); err == nil {
			later(q, request(key))
		}
	}
	for _, key := range append(r.reconciler.held.all(), r.reconciler.claims.in(api.Binding, "")...) {
		later(q, request(key))
	}
}

func request(key contract.Key) ctrl.Request {
	return ctrl.Request{NamespacedName: types.NamespacedName{Namespace: key.Namespace, Name: key.Name}}
}

// Stop ends the controller of a binding, if it runs, and forgets its objects.
func (c *Controllers) Stop(binding string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stop(binding)
}

func (c *Controllers) stop(binding string) {
	r := c.running[binding]
	if r == nil {
		return
	}
	delete(c.running, binding)
	r.cancel()
	r.reconciler.work.close()
	// Its Start may never return (see shutdownLatch), and what is left behind keeps the cache.
	r.reconciler.numbers.Forget()
	_ = r.reconciler.claims.store.Replace(nil, "")
}

// Held returns the files of a binding that have no object: how many, and the
// first of them.
func (c *Controllers) Held(binding string) (int, []v1alpha1.HeldFile) {
	c.mu.Lock()
	r := c.running[binding]
	c.mu.Unlock()
	if r == nil {
		return 0, nil
	}
	return r.reconciler.held.list(maxHeld)
}

// NamespaceCame looks again at what is held because a namespace was not there.
func (c *Controllers) NamespaceCame(namespace string) {
	c.again(func(r *reconciler) []contract.Key { return r.held.in(namespace) })
}

// NamespaceChanged looks again at the objects of a namespace: it is gone, or says something
// else of how they are changed.
func (c *Controllers) NamespaceChanged(namespace string) {
	c.again(func(r *reconciler) []contract.Key { return r.claims.in(r.api().Binding, namespace) })
}

func (c *Controllers) again(which func(*reconciler) []contract.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.running {
		r.mu.Lock()
		q := r.queue
		r.mu.Unlock()
		for _, key := range which(r.reconciler) {
			if q != nil {
				q.Add(request(key))
			}
		}
	}
}

// Start ends all controllers when ctx ends.
func (c *Controllers) Start(ctx context.Context) error {
	<-ctx.Done()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	for _, r := range c.running {
		r.cancel()
	}
	for _, r := range c.running {
		r.reconciler.work.close()
	}
	return nil
}
