// Package relay is the floor under all figures of claims: a client that does
// nothing but carry objects of one resource from one API server to another, and
// their status back, as directly as client-go lets it.
package relay

import (
	"context"
	"fmt"
	"maps"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// Workers is how many objects are carried at once in either direction.
const Workers = 16

// Relay carries one resource.
type Relay struct {
	Resource schema.GroupVersionResource
	From, To dynamic.Interface

	here, there cache.SharedIndexInformer
}

// Run carries until ctx ends; it returns when it has begun.
func (r *Relay) Run(ctx context.Context) error {
	up, down := newQueue(), newQueue()
	r.here = informer(r.From, r.Resource)
	r.there = informer(r.To, r.Resource)
	for _, d := range []struct {
		informer cache.SharedIndexInformer
		queue    workqueue.TypedRateLimitingInterface[string]
	}{{r.here, up}, {r.there, down}} {
		add := func(o any) {
			if key, err := cache.MetaNamespaceKeyFunc(o); err == nil {
				d.queue.Add(key)
			}
		}
		if _, err := d.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, o any) { add(o) }}); err != nil {
			return err
		}
		go d.informer.Run(ctx.Done())
	}
	if !cache.WaitForCacheSync(ctx.Done(), r.here.HasSynced, r.there.HasSynced) {
		return fmt.Errorf("run the relay: %w", context.Cause(ctx))
	}
	for range Workers {
		go work(ctx, up, r.up)
		go work(ctx, down, r.down)
	}
	context.AfterFunc(ctx, func() { up.ShutDown(); down.ShutDown() })
	return nil
}

func newQueue() workqueue.TypedRateLimitingInterface[string] {
	return workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
}

func informer(c dynamic.Interface, r schema.GroupVersionResource) cache.SharedIndexInformer {
	return dynamicinformer.NewDynamicSharedInformerFactory(c, 0).ForResource(r).Informer()
}

func work(ctx context.Context, q workqueue.TypedRateLimitingInterface[string], do func(context.Context, string) error) {
	for {
		key, end := q.Get()
		if end {
			return
		}
		if err := do(ctx, key); err != nil {
			q.AddRateLimited(key)
		} else {
			q.Forget(key)
		}
		q.Done(key)
	}
}

func get(i cache.SharedIndexInformer, key string) *unstructured.Unstructured {
	o, ok, err := i.GetIndexer().GetByKey(key)
	if err != nil || !ok {
		return nil
	}
	return o.(*unstructured.Unstructured)
}

// up creates what is not there yet, and updates what differs.
func (r *Relay) up(ctx context.Context, key string) error {
	mine := get(r.here, key)
	if mine == nil {
		return nil
	}
	if theirs := get(r.there, key); theirs != nil {
		if reflect.DeepEqual(mine.Object["spec"], theirs.Object["spec"]) {
			return nil
		}
		o := &unstructured.Unstructured{Object: maps.Clone(theirs.Object)}
		o.Object["spec"] = mine.Object["spec"]
		_, err := r.To.Resource(r.Resource).Namespace(o.GetNamespace()).Update(ctx, o, metav1.UpdateOptions{})
		return err
	}
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": mine.GetAPIVersion(), "kind": mine.GetKind(), "spec": mine.Object["spec"],
	}}
	o.SetNamespace(mine.GetNamespace())
	o.SetName(mine.GetName())
	o.SetLabels(mine.GetLabels())
	o.SetAnnotations(mine.GetAnnotations())
	_, err := r.To.Resource(r.Resource).Namespace(o.GetNamespace()).Create(ctx, o, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// down writes the status back.
func (r *Relay) down(ctx context.Context, key string) error {
	mine, theirs := get(r.here, key), get(r.there, key)
	if mine == nil || theirs == nil || theirs.Object["status"] == nil || reflect.DeepEqual(mine.Object["status"], theirs.Object["status"]) {
		return nil
	}
	o := &unstructured.Unstructured{Object: maps.Clone(mine.Object)}
	o.Object["status"] = theirs.Object["status"]
	_, err := r.From.Resource(r.Resource).Namespace(o.GetNamespace()).UpdateStatus(ctx, o, metav1.UpdateOptions{})
	return err
}
