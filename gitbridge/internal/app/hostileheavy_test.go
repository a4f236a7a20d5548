package app_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"

	"gitbind.dev/backend/api/v1alpha1"
	"gitbind.dev/gitbridge/claim"
)

// largeFiles are files of some size, all of them different.
func largeFiles(at func(string) string, n, size int) (all []entry) {
	for i := range n {
		line := fmt.Sprintf("# file %d is large\n", i)
		all = append(all, entry{"100644", at(fmt.Sprintf("large-%03d", i)), strings.Repeat(line, size/len(line)+1)})
	}
	return all
}

// testRewrittenMeanwhile lets the branch be another one each time the bridge
// has begun to fetch it.
func testRewrittenMeanwhile(w *world, api v1alpha1.ExportedAPI) {
	t := w.tenant(api)
	orders := path(api, "team-a", "orders")
	t.push("Order", map[string]string{orders: manifest(orders, nano)})
	t.wantAnswer(orders, claim.Applied)
	before := t.object(orders)
	base := t.host.head(t.id, "main")

	var mu sync.Mutex
	left := 3
	t.host.setBefore(func(r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if left == 0 || !strings.Contains(r.URL.Path, t.id) || !strings.HasSuffix(r.URL.Path, "/git-upload-pack") || r.UserAgent() != "git/gitbind" {
			return
		}
		left--
		tree := t.host.run(t.id, "rev-parse", "main^{tree}")
		commit := t.host.run(t.id, "commit-tree", "-p", base, "-m", fmt.Sprint("Rewritten ", left), tree)
		t.host.run(t.id, "update-ref", "refs/heads/main", commit)
	})
	defer t.host.setBefore(nil)
	changed := path(api, "team-a", "changed")
	t.commitRaw(entry{"100644", changed, manifest(changed, nano)})
	t.wantAnswer(changed, claim.Applied)
	if after := t.object(orders); after == nil || after.GetUID() != before.GetUID() {
		w.Error("the claim of before is another one")
	}
	if out := t.host.run(t.id, "fsck", "--no-progress", "status"); strings.Contains(out, "error") {
		w.Errorf("git fsck: %s", out)
	}
}
