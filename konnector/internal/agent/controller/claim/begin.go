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

// begin is from when on what the cache has of an API's objects may be committed. An
// object that was written before may be older in the cache than what a process pushed that
// led before this one; or lack a field, if the definition is new.
type begin struct {
	mu sync.Mutex
	// Until notBefore there is no beginning. Then it is at a resourceVersion; "" for a
	// beginning that is still to be made.
	notBefore time.Time
	version   string
}

// delay has the beginning be after all watches by an earlier definition.
func (b *begin) delay() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.notBefore, b.version = time.Now().Add(oldWatches), ""
}

// precedes reports whether an object was written after the beginning. The first to ask
// makes the beginning.
func (b *begin) precedes(ctx context.Context, reader client.Reader, kind schema.GroupVersionKind, u *unstructured.Unstructured) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Now().Before(b.notBefore) {
		return false, nil
	}
	if b.version == "" {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := reader.List(ctx, list, client.Limit(1)); err != nil {
			return false, fmt.Errorf("list one %s: %w", kind.GroupKind(), err)
		}
		b.version = list.GetResourceVersion()
	}
	order, err := resourceversion.CompareResourceVersion(b.version, u.GetResourceVersion())
	return err == nil && order < 0, nil
}
