package gitstore_test

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/gitstore"
	"gitbind.dev/gitbridge/store/storetest"
)

// fill is an edit that writes many files.
func fill(n int) store.Edit {
	return store.Edit{Author: storetest.Author, Subject: "claim: fill", Apply: func(t *store.Tree) error {
		for i := range n {
			if err := t.Write(fmt.Sprintf("bindings/b/claims/ns-%d/%d.yaml", i%50, i), fmt.Appendf(nil, "claim %d of many", i)); err != nil {
				return err
			}
		}
		return nil
	}}
}

// A conflict or a proposal in a large repository must cost what a commit costs.
func TestABranchThatBeginsAtAnotherSendsAndFetchesWhatDiffers(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	defer h.check()
	r := h.open(gitstore.Options{})
	main := r.Branch("main")
	update(t, main, fill(5000))
	from := update(t, main, storetest.Put("bindings/b/claims/ns-1/1.yaml", "x"))
	var received atomic.Int64
	h.set(func() { h.wrap = func(w http.ResponseWriter) http.ResponseWriter { return &measured{w, &received} } })
	sent := h.sentBytes(func() {
		for i := range 3 {
			b := r.Branch(fmt.Sprint("conflicts/b/ns-1/1/", i))
			if _, err := b.UpdateFrom(t.Context(), from, storetest.Put("bindings/b/claims/ns-1/1.yaml", fmt.Sprint("lost ", i))); err != nil {
				t.Fatal(err)
			}
			// Another process, that did not see it, makes it again.
			again := h.open(gitstore.Options{}).Branch(fmt.Sprint("conflicts/b/ns-1/1/", i))
			if _, err := again.UpdateFrom(t.Context(), from, storetest.Put("bindings/b/claims/ns-1/1.yaml", fmt.Sprint("lost ", i))); err != nil {
				t.Fatal(err)
			}
		}
	})
	if n := sent / 3; n > 10_000 {
		t.Errorf("%d bytes sent for each", n)
	}
	if n := received.Load() / 6; n > 10_000 {
		t.Errorf("%d bytes received for each", n)
	}
}

// sentBytes is how much is pushed while something is done.
func (h *host) sentBytes(do func()) int64 {
	var n atomic.Int64
	h.set(func() {
		h.intercept = func(_ http.ResponseWriter, r *http.Request) bool {
			if strings.HasSuffix(r.URL.Path, "git-receive-pack") {
				n.Add(r.ContentLength)
			}
			return false
		}
	})
	defer h.set(func() { h.intercept = nil })
	do()
	return n.Load()
}

// measured counts what is answered.
type measured struct {
	http.ResponseWriter
	n *atomic.Int64
}

func (c *measured) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return c.ResponseWriter.Write(p)
}

func TestBranchesThatNobodyHoldsAreForgotten(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	r := h.open(gitstore.Options{})
	main := r.Branch("main")
	from := update(t, main, storetest.Put("x", "1"))
	for i := range 20 {
		if _, err := r.Branch(fmt.Sprint("conflicts/", i)).UpdateFrom(t.Context(), from, storetest.Put("x", fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	// Cleanups run some time after a collection.
	for deadline := time.Now().Add(time.Minute); r.Branches() != 1 && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		runtime.GC()
	}
	if n := r.Branches(); n != 1 {
		t.Errorf("%d branches are kept, want the one that is held", n)
	}
	if r.Branch("main") != main || main.Snapshot().Head() != from.Head() {
		t.Error("the one that is held is another one")
	}
	runtime.KeepAlive(main)
}
