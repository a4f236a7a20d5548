package claim

import (
	"context"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"gitbind.dev/gitbridge/api/v1alpha1"
)

// arrivals enqueues objects. Those of the first list wait until there is nothing
// better to do, except where somebody has changed them while no konnector ran.
type arrivals struct {
	handler.EnqueueRequestForObject
}

func (a *arrivals) Create(ctx context.Context, e event.CreateEvent, q workqueue.TypedRateLimitingInterface[ctrl.Request]) {
	if evidentlyNew(e.Object) {
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
