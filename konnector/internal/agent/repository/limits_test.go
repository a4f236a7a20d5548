package repository

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/memstore"
)

// A hostile host, or a person, makes a branch more than is read. It is told, and over
// when the branch is mended.
func TestH1_ABranchThatIsTooLargeIsToldAndFollowedAgain(t *testing.T) {
	for _, name := range []string{"main", "status"} {
		t.Run(name, func(t *testing.T) {
			remote := memstore.New()
			w := newWorld(t, "", remote)
			branch := map[string]store.Branch{"main": w.person, "status": w.bridge}[name]
			put := func(text string) store.Hash {
				snap, err := branch.Update(t.Context(), store.Edit{Author: store.Signature{Name: "Ada", Email: "ada@example.org"}, Subject: text, Apply: func(t *store.Tree) error {
					return t.Write("note", []byte(text))
				}})
				if err != nil {
					t.Fatal(err)
				}
				return snap.Head()
			}
			good := put("good")
			w.run()
			w.until("it is contacted", func() bool { return w.repo.Health().Contacted })

			var bad atomic.Pointer[store.LimitError]
			loads := atomic.Int64{}
			remote.SetFault(func(c memstore.Call) error {
				if limit := bad.Load(); limit != nil && c.Op == memstore.Load && c.Branch == name && remote.Head(name) == limit.Head {
					loads.Add(1)
					return limit
				}
				return nil
			})
			for round, mend := range []func(){func() { remote.ForceHead(name, good) }, func() { put("mended") }} {
				// The fault is there before the commit is.
				w.repo.Suspend()
				limit := &store.LimitError{Branch: name, Head: put(fmt.Sprint("too much ", round)), Reason: "tree too large: more than 250000 files and folders"}
				bad.Store(limit)
				w.repo.Resume()
				w.until("it is told", func() bool {
					reason, message := Explain(w.repo.Health().Err())
					return reason == ReasonTooLarge && strings.Contains(message, "branch "+name+" is at commit "+limit.Head.Short()) && strings.Contains(message, "more than 250000 files")
				})
				for range 3 {
					w.repo.Wake()
				}
				mend()
				w.repo.Wake()
				w.until("it is over", func() bool { return w.repo.Health().Err() == nil })
			}
			if n := loads.Load(); n != 2 {
				t.Errorf("what is too large was asked for %d times, want once each", n)
			}
		})
	}
}

func TestH2_AHistoryThatIsTooLongWaitsForAPerson(t *testing.T) {
	remote := memstore.New()
	w := newWorld(t, "", remote)
	put := func(text string) store.Hash {
		snap, err := w.person.Update(t.Context(), store.Edit{Author: store.Signature{Name: "Ada", Email: "ada@example.org"}, Subject: text, Apply: func(t *store.Tree) error {
			return t.Write("note", []byte(text))
		}})
		if err != nil {
			t.Fatal(err)
		}
		return snap.Head()
	}
	long := &longHistory{Branch: w.repo.Remote.Main}
	w.repo.Remote.Main, w.repo.Lineage.main.Branch = long, long
	put("1")
	w.run()
	w.until("it is contacted", func() bool { return w.repo.Health().Contacted })
	w.repo.Suspend()
	long.is.Store(true)
	put("2")
	head := put("3")
	w.repo.Resume()
	w.until("it is told", func() bool { return strings.Contains(w.repo.Health().Replaced, "has more history since than is read") })
	if err := w.repo.ApproveMain(t.Context(), string(head)); err != nil {
		t.Fatal(err)
	}
	w.until("it is over", func() bool { return w.repo.Health().Replaced == "" && w.repo.Lineage.Accepted() == head })
}

// longHistory is a branch whose history is more than is read.
type longHistory struct {
	store.Branch
	is atomic.Bool
}

func (b *longHistory) Log(ctx context.Context, since, to store.Hash) ([]store.Commit, bool, error) {
	if b.is.Load() {
		return nil, false, &store.LimitError{Branch: "main", Head: to, Reason: "the history before it: more than 67108864 bytes of commits"}
	}
	return b.Branch.Log(ctx, since, to)
}
