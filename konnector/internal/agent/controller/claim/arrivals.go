package claim

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/packed"
)

// changedMark is in a packed object that is evidently new.
const changedMark = "changed"

// ForCache makes an object smaller on its way into the cache: what servers keep
// for themselves is left out, and a claim is packed where there are many. Some
// pass it twice.
func ForCache(object any) (any, error) {
	u, ok := object.(*unstructured.Unstructured)
	if !ok {
		return cache.TransformStripManagedFields()(object)
	}
	if packed.Is(u) {
		return u, nil
	}
	// SetManagedFields would read them first.
	if metadata, ok := u.Object["metadata"].(map[string]any); ok {
		delete(metadata, "managedFields")
	}
	if !packed.Needed() {
		return u, nil
	}
	changed := evidentlyNew(u)
	if err := packed.Pack(u); err != nil {
		return nil, err
	}
	if changed {
		u.Object[changedMark] = true
	}
	return u, nil
}

// arrivals enqueues objects. Those of the first list wait until there is nothing
// better to do, except where somebody has changed them while no konnector ran.
type arrivals struct {
	handler.EnqueueRequestForObject
}

func (a *arrivals) Create(ctx context.Context, e event.CreateEvent, q workqueue.TypedRateLimitingInterface[ctrl.Request]) {
	if u, ok := e.Object.(*unstructured.Unstructured); ok && (u.Object[changedMark] != nil || !packed.Is(u) && evidentlyNew(u)) {
		q.Add(ctrl.Request{NamespacedName: client.ObjectKeyFromObject(e.Object)})
		return
	}
	a.EnqueueRequestForObject.Create(ctx, e, q)
}

// evidentlyNew tells at a glance that there is something to do.
func evidentlyNew(o client.Object) bool {
	annotations := o.GetAnnotations()
	return o.GetDeletionTimestamp() != nil || annotations[v1alpha1.BaseAnnotation] == "" || annotations[v1alpha1.ChangedByAnnotation] != ""
}

// later enqueues what is only to be checked.
func later(q workqueue.TypedRateLimitingInterface[ctrl.Request], r ctrl.Request) {
	if p, ok := q.(priorityqueue.PriorityQueue[ctrl.Request]); ok {
		p.AddWithOpts(priorityqueue.AddOpts{Priority: new(handler.LowPriority)}, r)
		return
	}
	q.Add(r)
}
