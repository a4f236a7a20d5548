package claim

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/pager"
	"k8s.io/client-go/util/workqueue"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/decision"
	"gitbind.dev/gitbridge/internal/exportedapi"
	"gitbind.dev/gitbridge/internal/quota"
	"gitbind.dev/gitbridge/internal/tenant"
)

func (c *Controller) beginQuotas() {
	c.quotas = &quota.Ledgers{
		Called:  func(key contract.Key) { c.queue.Enqueue(key.Path(), true) },
		Changed: func(binding string) { c.queue.usages.AddAfter(binding, usageEvery) },
	}
	c.usageLimiter = workqueue.NewTypedItemExponentialFailureRateLimiter[string](usageRetry, usageRetryMost)
	c.usageDue = map[string]time.Time{}
}

const (
	// usageEvery is how long changes of what is used of a quota are gathered: each is written
	// with all of an export's status.
	usageEvery = 2 * time.Second
	// usageRetry is how long until it is tried again where that failed first, and
	// usageRetryMost where it goes on failing.
	usageRetry, usageRetryMost = 10 * time.Second, 5 * time.Minute
)

// CountQuota has it published how much of a binding's quota is used.
func (q *Queue) CountQuota(binding string) { q.usages.Add(binding) }

// publishUsages publishes how much of quotas is used until ctx ends.
func (c *Controller) publishUsages(ctx context.Context) {
	usages := c.queue.usages
	defer context.AfterFunc(ctx, usages.ShutDown)()
	for {
		binding, ended := usages.Get()
		if ended {
			return
		}
		if wait := c.tryUsage(ctx, binding); wait > 0 {
			usages.AddAfter(binding, wait)
		}
		usages.Done(binding)
	}
}

// tryUsage publishes how much of a quota is used, unless that failed a moment ago, and gives
// after which time to try it again, 0 for not before it is another one.
func (c *Controller) tryUsage(ctx context.Context, binding string) time.Duration {
	if wait := c.usageDue[binding].Sub(c.Now()); wait > 0 {
		return wait
	}
	err := c.publishUsage(ctx, binding)
	if err == nil || ctx.Err() != nil {
		c.usageLimiter.Forget(binding)
		return 0
	}
	if c.usageLimiter.NumRequeues(binding) == 0 {
		c.Log.Info("How much of a quota is used is not published yet, and is tried again", "cluster", c.Session.Cluster.ID, "binding", binding, "error", err.Error())
	}
	wait := c.usageLimiter.When(binding)
	c.usageDue[binding] = c.Now().Add(wait)
	return wait
}

func (c *Controller) publishUsage(ctx context.Context, binding string) error {
	api, err := c.APIs.Resolve(ctx, c.Session.Cluster.Namespace, binding)
	if err != nil || api.Access != decision.Granted {
		return err
	}
	var usage *v1alpha1.QuotaUsage
	if api.Quota != nil {
		if usage, err = c.countUsage(ctx, binding, api); err != nil {
			return err
		}
	}
	return c.Usage(ctx, binding, usage)
}

// countUsage waits for its turn, so that a restart does not list all claims at once, with no lock
// held for which claims would wait.
func (c *Controller) countUsage(ctx context.Context, binding string, api exportedapi.API) (*v1alpha1.QuotaUsage, error) {
	if c.Counting != nil {
		select {
		case c.Counting <- struct{}{}:
			defer func() { <-c.Counting }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return c.quotas.Usage(ctx, binding, api.Quota, c.objectsOf(api.Resource, binding))
}

// takeQuota lets a claim in, or answers why not. One that was applied as it is goes on,
// also where its object was lost.
func (c *Controller) takeQuota(ctx context.Context, s *step) (outcome, bool, error) {
	q := s.api.Quota
	if q == nil {
		return outcome{}, false, nil
	}
	object := s.object
	if q.Weights != nil {
		// As the API server will have it: filledQuota sees that.
		object = object.DeepCopy()
		s.api.Schema.Default(object)
	}
	why, err := c.quotas.Take(ctx, s.Key, q, object.Object, s.isUnchanged(), c.objectsOf(s.api.Resource, s.Key.Binding))
	if err != nil || why == "" {
		return outcome{}, err != nil, err
	}
	field := ""
	if q.Weights != nil {
		field = q.Weights.Field
	}
	s.waits = true
	answer := s.Refused(contract.Denied, "", s.at(field, why))
	answer.Reason = contract.OverQuota
	return outcome{answer: answer, later: reconsider}, true, nil
}

// filledQuota notes what was applied.
func (c *Controller) filledQuota(s *step, u *unstructured.Unstructured) {
	if q := s.api.Quota; q != nil {
		c.quotas.Applied(s.Key, q, u.Object)
	}
}

// settleQuota notes what has become of a claim.
func (c *Controller) settleQuota(s *step) {
	if !s.IsClaim || s.Access == decision.NotWatched {
		// What there is, is not known.
		return
	}
	q := s.api.Quota
	if s.Access != decision.Granted {
		q = nil
	}
	exists := s.found != nil && (s.Live == nil || !s.Live.Foreign) || c.cache.isUnseen(s.Path)
	c.quotas.Settle(s.Key, q, exists, s.waits)
}

// objectsOf reads the objects of all of the cluster's claims of an API.
func (c *Controller) objectsOf(resource schema.GroupVersionResource, binding string) quota.Load {
	cluster, objects := c.Session.Cluster.ID, c.BridgeObjects.Resource(resource)
	pages := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return objects.List(ctx, o) })
	return func(ctx context.Context, each func(contract.Key, map[string]any)) error {
		return pages.EachListItem(ctx, metav1.ListOptions{LabelSelector: tenant.ClusterLabel + "=" + cluster}, func(o runtime.Object) error {
			u, ok := o.(*unstructured.Unstructured)
			if !ok {
				return nil
			}
			if id, key, ok := tenant.Origin(binding, u.GetNamespace(), u.GetName(), u.GetLabels()); ok && id == cluster {
				each(key, u.Object)
			}
			return nil
		})
	}
}
