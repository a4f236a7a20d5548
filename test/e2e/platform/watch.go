package platform

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

// PostgresqlInstances is the API that the platform offers.
var PostgresqlInstances = schema.GroupVersionResource{Group: "anynines.com", Version: "v1", Resource: "postgresqlinstances"}

// Event is one change of an object, as a watch saw it.
type Event struct {
	At     time.Time
	Type   watch.EventType
	Object *unstructured.Unstructured
}

// Watch keeps every change of a resource in all namespaces of a cluster with
// the time at which it was seen, so that a question may come after its answer.
type Watch struct {
	mu     sync.Mutex
	events []Event
	more   chan struct{} // closed and replaced at each event
	ended  error
}

// Watch begins to watch; it ends with ctx.
func (p *Platform) Watch(ctx context.Context, cluster string, resource schema.GroupVersionResource) (*Watch, error) {
	client, err := dynamic.NewForConfig(p.Cluster(cluster).Config())
	if err != nil {
		return nil, err
	}
	list, err := client.Resource(resource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list %s in %s: %w", resource.Resource, cluster, err)
	}
	version := list.GetResourceVersion()
	events, err := client.Resource(resource).Watch(ctx, metav1.ListOptions{ResourceVersion: version})
	if err != nil {
		return nil, fmt.Errorf("watch %s in %s: %w", resource.Resource, cluster, err)
	}
	w := &Watch{more: make(chan struct{})}
	for i := range list.Items {
		w.add(Event{At: time.Now(), Type: watch.Added, Object: &list.Items[i]})
	}
	go func() {
		// On a busy machine an API server may end a watch that cannot keep up, and a
		// connection may seem lost. It goes on from the last event, as long as there is an
		// API server.
		for err == nil && ctx.Err() == nil {
			version, err = w.follow(events, version)
			if err == nil {
				time.Sleep(watchAgain)
				events, err = client.Resource(resource).Watch(ctx, metav1.ListOptions{ResourceVersion: version})
			}
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.ended = fmt.Errorf("watch of %s in %s ended: %w", resource.Resource, cluster, errors.Join(err, context.Cause(ctx)))
		close(w.more)
	}()
	return w, nil
}

// watchAgain is after how long a watch that ended is begun again.
const watchAgain = 50 * time.Millisecond

// follow keeps the events of one watch until it ends, and gives the version that it came to.
// The error says that no other can go on from there.
func (w *Watch) follow(events watch.Interface, version string) (string, error) {
	for e := range events.ResultChan() {
		switch o := e.Object.(type) {
		case *unstructured.Unstructured:
			version = o.GetResourceVersion()
			w.add(Event{At: time.Now(), Type: e.Type, Object: o})
		case *metav1.Status:
			if err := apierrors.FromObject(o); apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
				return version, err
			}
		}
	}
	return version, nil
}

func (w *Watch) add(e Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
	close(w.more)
	w.more = make(chan struct{})
}

// Until returns the first event, past or to come, that match takes.
func (w *Watch) Until(ctx context.Context, what string, match func(Event) bool) (Event, error) {
	var last Event
	for next := 0; ; {
		w.mu.Lock()
		events, more, ended := w.events, w.more, w.ended
		w.mu.Unlock()
		for ; next < len(events); next++ {
			if last = events[next]; match(last) {
				return last, nil
			}
		}
		if ended != nil {
			return Event{}, fmt.Errorf("wait until %s: %w", what, ended)
		}
		select {
		case <-more:
		case <-ctx.Done():
			return Event{}, fmt.Errorf("wait until %s: %w; the last seen was %s", what, context.Cause(ctx), last)
		}
	}
}

func (e Event) String() string {
	if e.Object == nil {
		return "nothing"
	}
	status, _, _ := unstructured.NestedMap(e.Object.Object, "status")
	return fmt.Sprintf("%s %s/%s spec %v status %v", e.Type, e.Object.GetNamespace(), e.Object.GetName(), e.Object.Object["spec"], status)
}

// Is reports whether an object has a value at a path of fields.
func Is(u *unstructured.Unstructured, want any, fields ...string) bool {
	got, found, err := unstructured.NestedFieldNoCopy(u.Object, fields...)
	return err == nil && found && got == want
}

// Condition is the status ("True", "False", "Unknown" or "") of a condition in
// the list at a path of fields.
func Condition(u *unstructured.Unstructured, conditionType string, fields ...string) string {
	list, _, _ := unstructured.NestedSlice(u.Object, fields...)
	for _, c := range list {
		if m, ok := c.(map[string]any); ok && m["type"] == conditionType {
			s, _ := m["status"].(string)
			return s
		}
	}
	return ""
}
