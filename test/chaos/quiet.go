package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

const (
	// quietFor is for how long nothing is to be written.
	quietFor = 3 * time.Second
	// quietWithin is when that is to be: what was put off may come before.
	quietWithin = 2 * time.Minute
)

// quiet checks that nothing is written any more when nobody does anything.
func (r *run) quiet(ctx context.Context, c *checker) error {
	var changed []string
	var last error
	for deadline := time.Now().Add(quietWithin); time.Now().Before(deadline) && ctx.Err() == nil; {
		before, err := r.versions(ctx)
		sleep(ctx, quietFor)
		after, errAfter := r.versions(ctx)
		if last = errors.Join(err, errAfter); last != nil {
			continue // An API server that is busy says nothing of who writes.
		}
		changed = nil
		for _, key := range slices.Sorted(maps.Keys(after)) {
			if before[key] != after[key] {
				changed = append(changed, key)
			}
		}
		if len(changed) == 0 && len(before) == len(after) {
			c.counts["objects and branches that nobody writes any more"] = len(after)
			return nil
		}
	}
	if last == nil {
		c.fail("", "somebody keeps writing though nothing happens: %v", changed)
	}
	return last
}

// versions are those of all objects and branches that gitbind writes.
func (r *run) versions(ctx context.Context) (map[string]string, error) {
	out := map[string]string{}
	kinds := map[dynamic.Interface][]schema.GroupVersionResource{
		r.sides.app:     {ours("connections"), ours("apiservicebindings"), secrets},
		r.sides.control: {ours("clusterbindings"), ours("apiserviceexports")},
	}
	for client := range kinds {
		for _, a := range r.sides.apis {
			if !a.delivered {
				kinds[client] = append(kinds[client], a.resource)
			}
		}
	}
	for client, resources := range kinds {
		for _, resource := range resources {
			list, err := client.Resource(resource).List(ctx, metav1.ListOptions{})
			if err != nil {
				return nil, err
			}
			for _, u := range list.Items {
				out[fmt.Sprintf("%s %s/%s", resource.Resource, u.GetNamespace(), u.GetName())] = u.GetResourceVersion()
			}
		}
	}
	refs, err := r.sides.git(ctx, "for-each-ref")
	out["branches"] = string(refs)
	return out, err
}

func sortedKeys(m Counts) []string { return slices.Sorted(maps.Keys(m)) }
