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

	"gitbind.dev/konnector/internal/cli/output"
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
		return output.Line(c.Reason)
	}
	return output.Line(c.Message + " (" + c.Reason + ")")
}

// Is says whether an object is as it is waited for, and else the state that it is in, if
// there is one to tell.
type Is func(*unstructured.Unstructured) (bool, *metav1.Condition)

// IsTrue is for an object that has a condition.
func IsTrue(condition string) Is {
	return func(u *unstructured.Unstructured) (bool, *metav1.Condition) {
		got := Condition(u, condition)
		return got != nil && got.Status == metav1.ConditionTrue, got
	}
}

// Wait waits until a cluster-scoped object, which is there, is as wanted. It tells
// each other state that lasts, once.
func (c *Cluster) Wait(ctx context.Context, gvk schema.GroupVersionKind, name string, is Is, timeout time.Duration, tell func(string)) error {
	var gone bool
	err := c.Until(ctx, Watched{Kind: gvk, Key: client.ObjectKey{Name: name}, Tell: tell}, timeout, func(u *unstructured.Unstructured) (bool, *metav1.Condition) {
		if gone = u == nil; gone {
			return true, nil
		}
		return is(u)
	})
	if err == nil && gone {
		return fmt.Errorf("%s %s was deleted", gvk.Kind, name)
	}
	return err
}

// Watched is one object to wait for.
type Watched struct {
	Kind schema.GroupVersionKind
	Key  client.ObjectKey
	// Tell gets each state that lasts, once, in words; nil for nobody.
	Tell func(string)
}

// Until waits until an object is as wanted; is gets nil while there is none. The error is a
// NotReady when time is up.
func (c *Cluster) Until(ctx context.Context, w Watched, timeout time.Duration, is Is) error {
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	states := announcer{tell: func(c metav1.Condition) {
		if w.Tell != nil {
			w.Tell(Say(c))
		}
	}}
	look := func(u *unstructured.Unstructured) bool {
		done, state := is(u)
		if !done && state != nil {
			states.becomes(state)
		}
		return done
	}
	absent := func(s cache.Store) (bool, error) { return len(s.List()) == 0 && look(nil), nil }
	_, err := watchtools.UntilWithSync(waiting, c.one(w.Kind, w.Key), &unstructured.Unstructured{}, absent, func(e watch.Event) (bool, error) {
		u, ok := e.Object.(*unstructured.Unstructured)
		if !ok || e.Type == watch.Deleted {
			u = nil
		}
		return look(u), nil
	})
	last := states.last()
	if err != nil && waiting.Err() != nil && ctx.Err() == nil {
		return &NotReady{Kind: w.Kind.Kind, Name: w.Key.Name, After: timeout, Condition: last}
	}
	if err != nil {
		return fmt.Errorf("wait for %s %s: %w", w.Kind.Kind, w.Key.Name, errors.Join(context.Cause(ctx), err))
	}
	return nil
}

// Condition is one of an object, if it is about the object as it is now.
func Condition(u *unstructured.Unstructured, condition string) *metav1.Condition {
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
	return c.listWatch(gvk, func(o metav1.ListOptions) *client.ListOptions {
		o.FieldSelector = ""
		return &client.ListOptions{Namespace: key.Namespace, FieldSelector: fields.OneTermEqualSelector("metadata.name", key.Name), Raw: &o}
	})
}

// listWatch lists and watches a kind, with what options makes of a request's own.
func (c *Cluster) listWatch(gvk schema.GroupVersionKind, options func(metav1.ListOptions) *client.ListOptions) cache.ListerWatcher {
	newList := func() *unstructured.UnstructuredList {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		return list
	}
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list := newList()
			return list, c.List(ctx, list, options(o))
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return c.Watch(ctx, newList(), options(o))
		},
	}
}
