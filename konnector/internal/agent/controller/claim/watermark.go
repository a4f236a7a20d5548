package claim

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// oldWatches is how long after a change of a definition an API server may go on with
// watches by the one before, which leave out what only the new one has: it waits for
// requests that are under way, for two minutes at most, and may hear of the change late.
const oldWatches = 3 * time.Minute

// watermark is from when on what the cache has of an API's objects may be committed. An
// object that was written before may be older in the cache than what a process pushed that
// led before this one; or lack a field, if the definition is new.
type watermark struct {
	mu sync.Mutex
	// Until notBefore there is none. Then it is a resourceVersion; "" for one that is
	// still to be asked for.
	notBefore time.Time
	version   string
}

// delay sets it after all watches by an earlier definition.
func (w *watermark) delay() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notBefore, w.version = time.Now().Add(oldWatches), ""
}

// precedes reports whether an object was written after the watermark. The first to ask
// sets it.
func (w *watermark) precedes(ctx context.Context, reader client.Reader, kind schema.GroupVersionKind, u *unstructured.Unstructured) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Now().Before(w.notBefore) {
		return false, nil
	}
	if w.version == "" {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := reader.List(ctx, list, client.Limit(1)); err != nil {
			return false, fmt.Errorf("list one %s: %w", kind.GroupKind(), err)
		}
		w.version = list.GetResourceVersion()
	}
	order, err := resourceversion.CompareResourceVersion(w.version, u.GetResourceVersion())
	return err == nil && order < 0, nil
}
