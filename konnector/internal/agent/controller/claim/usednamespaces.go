package claim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// namespaces notices where objects come and go.
type namespaces struct {
	// onChange is called when other namespaces may hold objects. It must not block.
	onChange func()

	mu    sync.Mutex
	known map[string]bool
}

func (n *namespaces) came(namespace string) {
	n.mu.Lock()
	known := n.known[namespace]
	if n.known == nil {
		n.known = map[string]bool{}
	}
	n.known[namespace] = true
	n.mu.Unlock()
	if !known {
		n.onChange()
	}
}

// went is called for each object; whether it was the last one is for
// onChange to find out.
func (n *namespaces) went(namespace string) {
	n.mu.Lock()
	delete(n.known, namespace)
	n.mu.Unlock()
	n.onChange()
}

func (n *namespaces) predicate() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool {
			n.came(e.Object.GetNamespace())
			return true
		},
		DeleteFunc: func(e event.DeleteEvent) bool {
			n.went(e.Object.GetNamespace())
			return true
		},
	}
}

// Namespaces are those that hold objects of a bound API, by name: the first
// maxNamespaces of them.
func (c *Controllers) Namespaces(ctx context.Context, binding string) ([]string, error) {
	c.mu.Lock()
	r := c.running[binding]
	c.mu.Unlock()
	if r == nil {
		return nil, fmt.Errorf("list %s: %w", binding, errStopped)
	}
	claims, err := r.reconciler.claims.list(ctx)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", binding, err)
	}
	found := map[string]bool{}
	for _, c := range claims {
		found[c.Namespace] = true
	}
	all := slices.Sorted(maps.Keys(found))
	return all[:min(len(all), maxNamespaces)], nil
}

// maxNamespaces is how many namespaces are written down.
const maxNamespaces = 1000
