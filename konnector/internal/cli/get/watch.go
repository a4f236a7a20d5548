package get

import (
	"context"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gitbind.dev/konnector/internal/cli/output"
)

// follow prints the claims, and then a line for each that changes its row, until
// it is interrupted. Where has the namespace of each binding in which they were listed.
func (in Input) follow(ctx context.Context, all found, list output.Listing, where map[string]string) error {
	wide := in.Format == output.Wide
	table := output.NewGrowing(in.Terminal, list.Columns, wide)
	if err := table.Print(list.Rows); err != nil {
		return err
	}
	shown := map[string]string{}
	for _, c := range all.claims {
		// A line that comes later stands by itself, behind no other claim.
		c.depth = 0
		shown[c.sortKey()] = strings.Join(all.row(c, wide), "\x00")
	}
	var mu sync.Mutex
	changed := func(binding string) func(*unstructured.Unstructured, bool) error {
		return func(u *unstructured.Unstructured, gone bool) error {
			c := claim{object: *u, binding: binding}
			row := all.row(c, wide)
			if gone {
				row[len(row)-1] = "is gone"
			}
			mu.Lock()
			defer mu.Unlock()
			text := strings.Join(row, "\x00")
			if shown[c.sortKey()] == text {
				return nil
			}
			shown[c.sortKey()] = text
			return table.Print([][]string{row})
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, len(where))
	following := 0
	for binding, namespace := range where {
		kind, err := in.Cluster.KindOf(binding)
		if meta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			return err
		}
		following++
		go func() {
			ended <- in.Cluster.Follow(ctx, kind, namespace, in.Selector, changed(binding))
		}()
	}
	if following == 0 {
		return nil
	}
	return <-ended
}
