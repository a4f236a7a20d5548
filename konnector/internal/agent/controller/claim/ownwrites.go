package claim

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"gitbind.dev/gitbridge/contract"
)

// written are objects as this process wrote them last, until the cache shows
// them: who looks at the cache a moment after a write would decide on what was
// before it. Losing one does no harm, and large ones are not kept: they cost another look.
type written struct {
	mu      sync.Mutex
	objects map[types.NamespacedName]writtenObject
}

type writtenObject struct {
	*unstructured.Unstructured
	// settled says that nothing was left to do about it when it was looked at last.
	settled bool
}

func (w *written) note(o client.Object) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok || u.GetResourceVersion() == "" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if sizeOf(u.Object) > maxKept {
		delete(w.objects, client.ObjectKeyFromObject(u))
		return
	}
	u = u.DeepCopy()
	u.SetManagedFields(nil)
	if w.objects == nil {
		w.objects = map[types.NamespacedName]writtenObject{}
	}
	w.objects[client.ObjectKeyFromObject(u)] = writtenObject{Unstructured: u}
}

// settle says that nothing is left to do about an object as it was written.
func (w *written) settle(key contract.Key) {
	name := types.NamespacedName{Namespace: key.Namespace, Name: key.Name}
	w.mu.Lock()
	defer w.mu.Unlock()
	if ours, ok := w.objects[name]; ok {
		ours.settled = true
		w.objects[name] = ours
	}
}

// newer is an object as this process wrote it, nil where what the cache shows is as
// new.
func (w *written) newer(key contract.Key, cached *cachedClaim) *unstructured.Unstructured {
	name := types.NamespacedName{Namespace: key.Namespace, Name: key.Name}
	w.mu.Lock()
	defer w.mu.Unlock()
	ours, ok := w.objects[name]
	if !ok {
		return nil
	}
	if cached != nil && cached.UID == ours.GetUID() {
		order, err := resourceversion.CompareResourceVersion(cached.ResourceVersion, ours.GetResourceVersion())
		if err == nil && order < 0 {
			return ours.Unstructured
		}
	}
	delete(w.objects, name)
	return nil
}

// isSettled reports whether nothing is left to do about an object as the cache shows
// it: it is as this process wrote it last, or as that write found it.
func (w *written) isSettled(cached *cachedClaim) bool {
	name := client.ObjectKeyFromObject(cached)
	w.mu.Lock()
	defer w.mu.Unlock()
	ours := w.objects[name]
	if !ours.settled || cached.UID != ours.GetUID() {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(cached.ResourceVersion, ours.GetResourceVersion())
	if err == nil && order == 0 {
		delete(w.objects, name)
	}
	return err == nil && order <= 0
}

// predicate leaves out the events of writes that are settled.
func (w *written) predicate() predicate.Predicate {
	open := func(o client.Object) bool {
		c, ok := o.(*cachedClaim)
		return !ok || !w.isSettled(c)
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return open(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool { return open(e.ObjectNew) },
	}
}

// notingClient notes what it writes.
type notingClient struct {
	client.Client
	written *written
	// patches has room for as many patches as are sent at once. They record what
	// was done, after many a push for hundreds of claims together.
	patches chan struct{}
}

// maxPatches are not more than people who apply at once in a rush: otherwise they
// would wait for it.
const maxPatches = 16

func newNotingClient(c client.Client, w *written) notingClient {
	return notingClient{c, w, make(chan struct{}, maxPatches)}
}

func (c notingClient) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	return c.noted(o, c.Client.Create(ctx, o, opts...))
}

func (c notingClient) Patch(ctx context.Context, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
	select {
	case c.patches <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-c.patches }()
	return c.noted(o, c.Client.Patch(ctx, o, patch, opts...))
}

func (c notingClient) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	err := c.Client.Update(ctx, o, opts...)
	var all client.UpdateOptions
	if all.ApplyOptions(opts); len(all.DryRun) > 0 {
		return err
	}
	return c.noted(o, err)
}

func (c notingClient) Status() client.SubResourceWriter {
	return notingStatus{c.Client.Status(), c}
}

func (c notingClient) noted(o client.Object, err error) error {
	if err == nil {
		c.written.note(o)
	}
	return err
}

type notingStatus struct {
	client.SubResourceWriter
	client notingClient
}

func (s notingStatus) Update(ctx context.Context, o client.Object, opts ...client.SubResourceUpdateOption) error {
	return s.client.noted(o, s.SubResourceWriter.Update(ctx, o, opts...))
}
