package claim

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/decision"
	"gitbind.dev/gitbridge/internal/quota"
	"gitbind.dev/gitbridge/internal/tenant"
)

func (c *Controller) beginQuotas() {
	c.quotas = quota.New(func(key contract.Key) { c.queue.Enqueue(key.Path(), true) })
}

// takeQuota lets a claim in, or answers why not. One that was applied as it is goes on,
// also where its object was lost.
func (c *Controller) takeQuota(ctx context.Context, s *step) (outcome, bool, error) {
	q := s.api.Quota
	if q == nil {
		return outcome{}, false, nil
	}
	why, err := c.quotas.Take(ctx, s.Key, q, s.object.Object, s.isUnchanged(), func(ctx context.Context, each func(contract.Key, map[string]any)) error {
		return c.eachObject(ctx, s, each)
	})
	if err != nil || why == "" {
		return outcome{}, err != nil, err
	}
	field := ""
	if q.Weights != nil {
		field = q.Weights.Field
	}
	s.waits = true
	c.failing.Worked(s.Path)
	return outcome{answer: s.Refused(contract.Denied, "", s.at(field, why)), later: reconsider}, true, nil
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
	c.quotas.Settle(s.Key, q, s.found != nil || c.cache.isUnseen(s.Path), s.waits)
}

// eachObject reads the objects of all of the cluster's claims of an API.
func (c *Controller) eachObject(ctx context.Context, s *step, each func(contract.Key, map[string]any)) error {
	objects := c.BridgeObjects.Resource(s.api.Resource)
	pages := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return objects.List(ctx, o) })
	return pages.EachListItem(ctx, metav1.ListOptions{LabelSelector: tenant.ClusterLabel + "=" + s.Cluster}, func(o runtime.Object) error {
		u, ok := o.(*unstructured.Unstructured)
		if !ok {
			return nil
		}
		if id, key, ok := tenant.Origin(s.Key.Binding, u.GetNamespace(), u.GetName(), u.GetLabels()); ok && id == s.Cluster {
			each(key, u.Object)
		}
		return nil
	})
}
