package gitstore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/gitstore"
	"gitbind.dev/gitbridge/store/storetest"
)

func TestACutThatTheRemoteForbidsIsRejectedInItsWords(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	defer h.check()
	h.git("config", "receive.denyNonFastForwards", "true")
	b := h.Branch("status")
	update(t, b, storetest.Put("x", "1"))
	head := update(t, b, storetest.Put("x", "2")).Head()
	_, err := b.Cut(t.Context(), storetest.Put("x", "3"))
	if !errors.Is(err, store.ErrRejected) || !strings.Contains(err.Error(), "non-fast-forward") {
		t.Errorf("got %v", err)
	}
	if got := fetch(t, b).Head(); got != head {
		t.Errorf("the branch is at %s", got)
	}
	update(t, b, storetest.Put("x", "4"))
}

// What was cut is gone from the remote when it tidies up, and a cut costs what
// a commit costs, whatever the size of the tree.
func TestACutLetsTheRemoteForget(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	defer h.check()
	b := h.open(gitstore.Options{}).Branch("status")
	update(t, b, fill(2000))
	for i := range 30 {
		update(t, b, storetest.Put("bindings/b/claims/ns-1/1.yaml", strings.Repeat(fmt.Sprint("content ", i, " "), 50)))
	}
	objects := func() (n int) {
		for range strings.Lines(h.git("rev-list", "--all", "--objects")) {
			n++
		}
		return n
	}
	before := objects()
	sent := h.sentBytes(func() {
		if _, err := b.Cut(t.Context(), storetest.Put("observed.yaml", "sequence: 31")); err != nil {
			t.Fatal(err)
		}
	})
	if sent > 10_000 {
		t.Errorf("%d bytes sent", sent)
	}
	h.Collect()
	after := objects()
	if inPacks := h.git("count-objects", "-v"); !strings.Contains(inPacks, fmt.Sprintf("in-pack: %d\n", after)) || !strings.Contains(inPacks, "count: 0\n") {
		t.Errorf("%d objects are reached, but there are\n%s", after, inPacks)
	}
	if after > before-30*4 {
		t.Errorf("%d objects before, %d after", before, after)
	}
}
