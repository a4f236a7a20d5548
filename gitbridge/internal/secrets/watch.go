package secrets

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"gitbind.dev/gitbridge/api/v1alpha1"
)

var resource = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}

// errNotKnown says that a namespace's Secrets are not known yet.
var errNotKnown = errors.New("the Secrets of the namespace are not known yet")

// watches knows which Secrets there are in the claim namespaces of one cluster. It has
// their metadata only.
type watches struct {
	client metadata.Interface
	// changed is told of claims whose Secrets may have changed.
	changed func(path string)

	ctx context.Context
	run sync.WaitGroup

	mu         sync.Mutex
	namespaces map[string]*namespace
}

// namespace is one that is watched.
type namespace struct {
	secrets cache.SharedIndexInformer
	stop    context.CancelFunc
	// trouble is why it cannot be watched.
	trouble error
	// wanted are the Secrets of claims, by path.
	wanted map[string][]selection
}

// find gives the Secrets that claims at a path select, and remembers what they select. The
// error is errNotKnown, or says why they cannot be known.
func (w *watches) find(in, path string, selections []selection) (map[string]taken, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.namespaces[in]
	if n == nil {
		n = w.begin(in)
	}
	n.wanted[path] = selections
	switch {
	case n.secrets.HasSynced():
	case n.trouble != nil:
		return nil, n.trouble
	default:
		return nil, errNotKnown
	}
	out := map[string]taken{}
	for _, s := range selections {
		if s.labels == nil {
			if o, ok, _ := n.secrets.GetStore().GetByKey(in + "/" + s.name); ok {
				merge(out, o.(*metav1.PartialObjectMetadata), s)
			}
			continue
		}
		for _, o := range n.secrets.GetStore().List() {
			if m := o.(*metav1.PartialObjectMetadata); s.takes(m) {
				merge(out, m, s)
			}
		}
	}
	return out, nil
}

// forget says that a claim has no Secrets any more. A namespace without such claims is
// not watched.
func (w *watches) forget(in, path string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.namespaces[in]
	if n == nil {
		return
	}
	if delete(n.wanted, path); len(n.wanted) == 0 {
		n.stop()
		delete(w.namespaces, in)
	}
}

// begin watches a namespace. It must be called with mu held.
func (w *watches) begin(in string) *namespace {
	secrets := w.client.Resource(resource).Namespace(in)
	ctx, stop := context.WithCancel(w.ctx)
	n := &namespace{stop: stop, wanted: map[string][]selection{}}
	n.secrets = cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return secrets.List(ctx, o) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return secrets.Watch(ctx, o)
		},
	}, w.client), &metav1.PartialObjectMetadata{}, 0, cache.Indexers{})
	tell := func(objects ...any) {
		var all []*metav1.PartialObjectMetadata
		for _, o := range objects {
			if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = gone.Obj
			}
			if m, ok := o.(*metav1.PartialObjectMetadata); ok {
				all = append(all, m)
			}
		}
		w.tell(n, all)
	}
	// An error can only say that it runs already.
	_ = n.secrets.SetTransform(trim)
	_ = n.secrets.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) { w.failed(in, n, err) })
	handled, _ := n.secrets.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(o any, initial bool) {
			if !initial {
				tell(o)
			}
		},
		UpdateFunc: func(before, o any) { tell(before, o) }, DeleteFunc: func(o any) { tell(o) },
	})
	w.namespaces[in] = n
	w.run.Go(func() { n.secrets.RunWithContext(ctx) })
	w.run.Go(func() {
		if cache.WaitForCacheSync(ctx.Done(), handled.HasSynced) {
			w.tellAll(n)
		}
	})
	return n
}

// trim leaves of a Secret what is needed to know it.
func trim(o any) (any, error) {
	if m, ok := o.(*metav1.PartialObjectMetadata); ok {
		m.Annotations, m.ManagedFields = nil, nil
	}
	return o, nil
}

// tell looks again at the claims that select a Secret, as it is or as it was.
func (w *watches) tell(n *namespace, secrets []*metav1.PartialObjectMetadata) {
	w.mu.Lock()
	var paths []string
	for path, selections := range n.wanted {
		if slices.ContainsFunc(selections, func(s selection) bool { return slices.ContainsFunc(secrets, s.takes) }) {
			paths = append(paths, path)
		}
	}
	w.mu.Unlock()
	for _, path := range paths {
		w.changed(path)
	}
}

func (w *watches) tellAll(n *namespace) {
	w.mu.Lock()
	paths := slices.Collect(maps.Keys(n.wanted))
	w.mu.Unlock()
	for _, path := range paths {
		w.changed(path)
	}
}

// failed keeps why Secrets are not known, if it is not for a moment. The first time it
// is told to the claims.
func (w *watches) failed(in string, n *namespace, err error) {
	if !apierrors.IsForbidden(err) {
		return
	}
	w.mu.Lock()
	first := n.trouble == nil
	n.trouble = errors.New(noRight(in))
	w.mu.Unlock()
	if first {
		w.tellAll(n)
	}
}

func noRight(namespace string) string {
	return fmt.Sprintf("the tenant may not read Secrets in %s: it gets that by the ClusterRole %s, if the control plane has it", namespace, v1alpha1.ClaimSecrets)
}

// end waits for all watches to end with their context.
func (w *watches) end() { w.run.Wait() }
