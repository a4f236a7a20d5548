package stage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// Sight is what is known of one object: of its newest state, and when it was
// first so.
type Sight struct {
	Namespace, Name string
	MaxConnections  int64
	// ClusterStatus is the data service's word.
	ClusterStatus string
	// Applied says that the app cluster knows that the control plane has it.
	Applied bool
	Version string

	// First is when the object was seen first; Changed when MaxConnections was
	// first so, Reported when ClusterStatus was.
	First, Changed, Reported time.Time
}

// There says that the object exists.
func There(Sight) bool { return true }

// Returned says that its status has come.
func Returned(s Sight) bool { return s.ClusterStatus != "" }

// Eyes see the objects of some resources in one cluster, by name. They read no
// more of each than they must, as they share the machine with what is measured.
type Eyes struct {
	mu    sync.Mutex
	seen  map[schema.GroupVersionResource]map[string]Sight
	more  chan struct{}
	ended error
	added []func(schema.GroupVersionResource, Sight)
}

func watch(ctx context.Context, config *rest.Config, resources ...schema.GroupVersionResource) (*Eyes, error) {
	e := &Eyes{seen: map[schema.GroupVersionResource]map[string]Sight{}, more: make(chan struct{})}
	for _, r := range resources {
		e.seen[r] = map[string]Sight{}
		config := rest.CopyConfig(config)
		config.APIPath, config.GroupVersion = "/apis", new(r.GroupVersion())
		client, err := rest.UnversionedRESTClientFor(withJSON(config))
		if err != nil {
			return nil, err
		}
		stream, err := open(ctx, client, r, "")
		if err != nil {
			return nil, err
		}
		go func() {
			err := e.follow(ctx, client, r, stream)
			e.mu.Lock()
			defer e.mu.Unlock()
			e.ended = fmt.Errorf("the watch of %s ended: %w", r.Resource, err)
			e.wake()
		}()
	}
	return e, nil
}

func open(ctx context.Context, client rest.Interface, r schema.GroupVersionResource, after string) (io.ReadCloser, error) {
	return client.Get().Resource(r.Resource).Param("watch", "true").Param("resourceVersion", after).Stream(ctx)
}

// follow goes on where a watch ended: API servers end those of a kind whose
// definition changes.
func (e *Eyes) follow(ctx context.Context, client rest.Interface, r schema.GroupVersionResource, stream io.ReadCloser) error {
	for after := ""; ; {
		var err error
		after, err = e.read(r, stream, after)
		_ = stream.Close()
		if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return err
		}
		if stream, err = open(ctx, client, r, after); err != nil {
			return err
		}
	}
}

// event is what is read of a watch event.
type event struct {
	Type   string
	Object struct {
		Metadata struct{ Namespace, Name, ResourceVersion string }
		Spec     struct {
			Parameters struct{ MaxConnections int64 }
		}
		Status struct {
			Managed struct{ ClusterStatus string }
			Gitbind struct{ Conditions []metav1.Condition }
		}
	}
}

// read reads a watch to its end, and returns the last version that it has seen.
func (e *Eyes) read(r schema.GroupVersionResource, stream io.Reader, after string) (string, error) {
	for d := json.NewDecoder(stream); ; {
		var v event
		if err := d.Decode(&v); err != nil {
			return after, err
		}
		if v.Type == "ERROR" {
			return after, errors.New("the API server says no")
		}
		after = v.Object.Metadata.ResourceVersion
		e.note(r, v)
	}
}

func (e *Eyes) note(r schema.GroupVersionResource, v event) {
	now := time.Now()
	o := &v.Object
	s := Sight{
		Namespace: o.Metadata.Namespace, Name: o.Metadata.Name, Version: o.Metadata.ResourceVersion,
		MaxConnections: o.Spec.Parameters.MaxConnections, ClusterStatus: o.Status.Managed.ClusterStatus,
		First: now, Changed: now, Reported: now,
	}
	for _, c := range o.Status.Gitbind.Conditions {
		s.Applied = s.Applied || c.Type == "Applied" && c.Status == metav1.ConditionTrue
	}
	e.mu.Lock()
	old, known := e.seen[r][s.Name]
	if known {
		s.First = old.First
		if s.MaxConnections == old.MaxConnections {
			s.Changed = old.Changed
		}
		if s.ClusterStatus == old.ClusterStatus {
			s.Reported = old.Reported
		}
	}
	if v.Type == "DELETED" {
		delete(e.seen[r], s.Name)
	} else {
		e.seen[r][s.Name] = s
	}
	added := e.added
	e.wake()
	e.mu.Unlock()
	if !known {
		for _, fn := range added {
			fn(r, s)
		}
	}
}

// wake has those who wait look; with the lock held.
func (e *Eyes) wake() {
	close(e.more)
	e.more = make(chan struct{})
}

// onAdded calls fn for each object that is seen for the first time. It must not
// block.
func (e *Eyes) onAdded(fn func(schema.GroupVersionResource, Sight)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.added = append(e.added, fn)
}

// Until waits until an object is as it is asked for.
func (e *Eyes) Until(ctx context.Context, r schema.GroupVersionResource, name string, is func(Sight) bool) (Sight, error) {
	for {
		e.mu.Lock()
		s, ok := e.seen[r][name]
		more, ended := e.more, e.ended
		e.mu.Unlock()
		switch {
		case ok && is(s):
			return s, nil
		case ended != nil:
			return Sight{}, ended
		}
		select {
		case <-more:
		case <-ctx.Done():
			return Sight{}, fmt.Errorf("wait for %s %s: %w; it is %+v", r.Resource, name, context.Cause(ctx), s)
		}
	}
}

// UntilAll waits until all of these objects are as asked for.
func (e *Eyes) UntilAll(ctx context.Context, r schema.GroupVersionResource, names []string, is func(Sight) bool) ([]Sight, error) {
	all := make([]Sight, 0, len(names))
	for _, name := range names {
		s, err := e.Until(ctx, r, name, is)
		if err != nil {
			return nil, fmt.Errorf("after %d of %d: %w", len(all), len(names), err)
		}
		all = append(all, s)
	}
	return all, nil
}

// Count is how many objects of a resource there are.
func (e *Eyes) Count(r schema.GroupVersionResource) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.seen[r])
}
