package appcluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// NotReady says that an object did not become ready in time.
type NotReady struct {
	Kind, Name string
	After      time.Duration
	// Condition is the last one seen, nil when there was none: nobody looks
	// after the object.
	Condition *metav1.Condition
}

func (e *NotReady) Error() string {
	text := fmt.Sprintf("%s %s is not ready after %s", e.Kind, e.Name, e.After)
	if e.Condition != nil {
		return text + ": " + Say(*e.Condition)
	}
	return text
}

// Say is a condition in a person's words.
func Say(c metav1.Condition) string {
	if c.Message == "" {
		return c.Reason
	}
	return c.Message + " (" + c.Reason + ")"
}

// Wait waits until a condition of a cluster-scoped object is true. It tells
// each other state of the condition that lasts, once.
func (c *Cluster) Wait(ctx context.Context, gvk schema.GroupVersionKind, name, condition string, timeout time.Duration, tell func(metav1.Condition)) error {
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	states := announcer{tell: tell}
	met := func(e watch.Event) (bool, error) {
		u, ok := e.Object.(*unstructured.Unstructured)
		if !ok || e.Type == watch.Deleted {
			return false, fmt.Errorf("%s %s was deleted", gvk.Kind, name)
		}
		got := find(u, condition)
		if got == nil {
			return false, nil
		}
		if got.Status == metav1.ConditionTrue {
			return true, nil
		}
		states.becomes(got)
		return false, nil
	}
	_, err := watchtools.UntilWithSync(waiting, c.one(gvk, client.ObjectKey{Name: name}), &unstructured.Unstructured{}, nil, met)
	last := states.last()
	if err != nil && waiting.Err() != nil && ctx.Err() == nil {
		return &NotReady{Kind: gvk.Kind, Name: name, After: timeout, Condition: last}
	}
	if err != nil {
		return fmt.Errorf("wait for %s %s: %w", gvk.Kind, name, errors.Join(context.Cause(ctx), err))
	}
	return nil
}

// find is the condition, if it is about the object as it is now.
func find(u *unstructured.Unstructured, condition string) *metav1.Condition {
	var status struct {
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &status); err != nil {
		return nil
	}
	return Current(status.Status.Conditions, condition, u.GetGeneration())
}

// one lists and watches one object.
func (c *Cluster) one(gvk schema.GroupVersionKind, key client.ObjectKey) cache.ListerWatcher {
	one := func(o metav1.ListOptions) (*unstructured.UnstructuredList, *client.ListOptions) {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		o.FieldSelector = ""
		return list, &client.ListOptions{Namespace: key.Namespace, FieldSelector: fields.OneTermEqualSelector("metadata.name", key.Name), Raw: &o}
	}
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, options := one(o)
			return list, c.List(ctx, list, options)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			list, options := one(o)
			return c.Watch(ctx, list, options)
		},
	}
}
