// Package claim brings the claims of one app cluster from main to the control
// plane, and answers each path of main on status. It works on one path at a
// time, from what is now rather than from what happened, and may be ended at
// any instant.
//
// Everything that a file says is applied and deleted as the tenant's
// ServiceAccount. The bridge's own rights are used to read, and to make the
// namespaces that claims lie in.
package claim

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/semaphore"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/workqueue"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/drift"
	"gitbind.dev/gitbridge/internal/exportedapi"
	"gitbind.dev/gitbridge/internal/failure"
	"gitbind.dev/gitbridge/internal/inputs"
	"gitbind.dev/gitbridge/internal/metrics"
	"gitbind.dev/gitbridge/internal/quota"
	"gitbind.dev/gitbridge/internal/secrets"
	"gitbind.dev/gitbridge/internal/session"
)

// Request names one path of main.
type Request struct{ Path string }

// APIs tells which APIs an app cluster may use.
type APIs interface {
	Resolve(ctx context.Context, namespace, binding string) (exportedapi.API, error)
}

// Objects are those that were applied, as far as watching tells.
type Objects interface {
	// Watch returns when all objects of a kind that an app cluster has are known. It calls
	// waits, if not nil, before it waits for anything.
	Watch(ctx context.Context, kind schema.GroupVersionKind, binding, clusterID string, waits func()) error
	Get(kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error)
}

// Controller works for one app cluster.
type Controller struct {
	Session *session.Session
	APIs    APIs
	Objects Objects
	// Bridge and BridgeObjects have the bridge's own rights, Tenant and
	// TenantObjects those of the cluster's ServiceAccount.
	Bridge        kubernetes.Interface
	BridgeObjects dynamic.Interface
	Tenant        kubernetes.Interface
	TenantObjects dynamic.Interface
	Log           logr.Logger
	Workers       int
	// LookLimit bounds how many paths are looked at at once for all app clusters: a bridge with
	// thousands of goroutines that can go on does not get to renew its Lease.
	LookLimit *semaphore.Weighted
	// Secrets are what Secrets that travel with claims are read and encrypted with. Rights
	// and Changed are the controller's own.
	Secrets secrets.Options
	// Inputs are what is sent with claims is opened and written with. All but Tenant and
	// Opener are the controller's own.
	Inputs inputs.Options
	// MaxNamespaces is how many namespaces may be made for the cluster's claims; 0
	// means any number.
	MaxNamespaces int
	// Usage publishes how much of a binding's quota the cluster uses, nil for one without a
	// quota.
	Usage func(ctx context.Context, binding string, u *v1alpha1.QuotaUsage) error
	// Counting has room for those who count claims for that at the same time, of all
	// clusters; nil for as many as there are.
	Counting chan struct{}
	// Metrics may be nil.
	Metrics *metrics.BridgeCluster
	Now     func() time.Time

	queue      *Queue
	limiter    workqueue.TypedRateLimiter[string]
	namespaces namespaces
	cache      cache
	failing    failure.Times
	losses     losses
	fights     drift.Fights
	background *backgroundAnswers
	sealer     *secrets.Sealer
	inputs     *inputs.Writer
	quotas     *quota.Ledgers
	// usageLimiter and usageDue, not before when, are of bindings whose usage could not be
	// published.
	usageLimiter workqueue.TypedRateLimiter[string]
	usageDue     map[string]time.Time
}

// Begin says for which session the controller works, before Run and DryRun.
func (c *Controller) Begin(s *session.Session) {
	c.Session = s
	c.namespaces.cluster, c.namespaces.client, c.namespaces.most = s.Cluster, c.Bridge, c.MaxNamespaces
}

// Run works off the queue until ctx ends.
func (c *Controller) Run(ctx context.Context, queue *Queue) error {
	c.queue = queue
	c.background = newBackgroundAnswers()
	defer c.background.wait.Wait()
	defer c.Metrics.Forget()
	c.limiter = workqueue.NewTypedItemExponentialFailureRateLimiter[string](retryFirst, retryLast)
	var watching sync.WaitGroup
	defer watching.Wait()
	ctx, cancel := context.WithCancel(ctx)
	c.beginSecrets(ctx)
	c.beginInputs()
	c.beginQuotas()
	defer c.sealer.Wait()
	defer cancel()
	watching.Go(func() { c.watchLosses(ctx) })
	watching.Go(func() { c.publishUsages(ctx) })
	work(ctx, queue, c.Workers, c.LookLimit, c.reconcile)
	return nil
}

// bringPath brings one path to the control plane, as it is now, and answers it. Release is
// called when it was looked at.
func (c *Controller) bringPath(ctx context.Context, r Request, release func()) (again time.Duration) {
	view := c.Session.View()
	if view.Main == nil && !view.Held || c.Session.Stops.Why() != nil {
		// Nothing counts yet, or nothing may be done: all paths come again.
		return 0
	}
	if c.background.isBusy(r.Path) {
		return 0
	}
	changed, dealt := c.queue.changedAt(r.Path), false
	defer func() {
		if !dealt {
			c.queue.notYet(r.Path, changed)
		}
	}()
	step, err := c.look(ctx, view, r.Path, release)
	release()
	if err == nil && step.isRemoved() {
		err = c.findRemoval(ctx, step)
	}
	if err != nil {
		return c.retry(ctx, r.Path, err)
	}
	step.changed = changed
	outcome, err := c.act(ctx, step)
	c.settleQuota(step)
	if err != nil {
		return c.retry(ctx, r.Path, err)
	}
	if outcome.wait > 0 {
		return outcome.wait
	}
	if !outcome.failing {
		// Also where an apply is not needed any more: its reply may have been lost.
		c.failing.Worked(r.Path)
	}
	wait, err := c.answer(ctx, step, outcome)
	if err != nil {
		return c.retry(ctx, r.Path, err)
	}
	if step.Live == nil && !step.Held && (outcome.answer == nil || outcome.answer.Result == contract.Gone) {
		c.cache.forget(r.Path)
		c.fights.Forget(r.Path)
	}
	dealt = wait == 0 && !outcome.failing
	switch {
	case outcome.again:
		c.queue.Enqueue(r.Path, true)
	case outcome.failing:
		wait = c.limiter.When(r.Path)
	default:
		c.limiter.Forget(r.Path)
		if outcome.later > 0 && wait == 0 {
			wait = outcome.later
		}
	}
	return wait
}

// retry is for trouble that passes, and that others tell people about: the
// ClusterBinding's condition, or this path's answer when it lasts.
func (c *Controller) retry(ctx context.Context, path string, err error) time.Duration {
	if ctx.Err() != nil {
		return 0
	}
	wait := c.failing.UntilTold(path, c.Now(), c.limiter.When(path))
	c.Log.V(1).Info("A path is tried again", "cluster", c.Session.Cluster.ID, "path", path, "after", wait.String(), "reason", err.Error())
	return wait
}
