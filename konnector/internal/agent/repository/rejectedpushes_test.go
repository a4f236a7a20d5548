package repository

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/memstore"
)

// rejecting has a host that rejects each push, and counts them.
func rejecting(w *world) (pushes *atomic.Int64, end func()) {
	pushes = &atomic.Int64{}
	w.remote.SetFault(func(c memstore.Call) error {
		if c.Op != memstore.Push || c.After {
			return nil
		}
		pushes.Add(1)
		return fmt.Errorf("%w: no quota", store.ErrRejected)
	})
	return pushes, func() { w.remote.SetFault(nil) }
}

func (w *world) update(name string) error {
	_, err := w.repo.Update(w.Context(), store.Edit{
		Author: store.Signature{Name: "Ada", Email: "ada@example.org"}, Subject: name,
		Apply: func(t *store.Tree) error { return t.Write("bindings/"+name, []byte(name)) },
	})
	return err
}

// TestL9_AHostThatRejectsIsNotAskedByEachClaim has many claims' events push while the
// host rejects.
func TestL9_AHostThatRejectsIsNotAskedByEachClaim(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", memstore.New())
	pushes, end := rejecting(w)
	if err := w.update("first"); !errors.Is(err, store.ErrRejected) || errors.Is(err, ErrNotTried) {
		t.Fatalf("the first push: %v", err)
	}
	var group sync.WaitGroup
	var notTried atomic.Int64
	for i := range 300 {
		group.Go(func() {
			switch err := w.update(fmt.Sprint(i)); {
			case errors.Is(err, ErrNotTried):
				notTried.Add(1)
			case !errors.Is(err, store.ErrRejected):
				t.Errorf("%v", err)
			}
		})
	}
	group.Wait()
	if tried := 300 - notTried.Load(); tried > maxRejected || tried == 0 {
		t.Errorf("%d were tried", tried)
	}
	if n := pushes.Load(); n > 3*maxRejected {
		t.Errorf("%d pushes", n)
	}
	// One more for each second.
	w.mu.Lock()
	w.now = w.now.Add(rejectedEvery)
	w.mu.Unlock()
	if err := w.update("later"); errors.Is(err, ErrNotTried) {
		t.Errorf("a second later: %v", err)
	}
	err := w.update("again")
	if reason, message := Explain(err); !errors.Is(err, ErrNotTried) || reason != ReasonRejected {
		t.Errorf("it says %s: %s", reason, message)
	}

	// Those who were turned away are told when it is over.
	end()
	w.mu.Lock()
	w.now, w.changes = w.now.Add(rejectedEvery), nil
	w.mu.Unlock()
	w.taken("later")
	w.until("all are told", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.changes) > 0 && w.changes[len(w.changes)-1].Recovered
	})
	for i := range 2 * maxRejected {
		w.taken(fmt.Sprint("after-", i))
	}
}

func (w *world) taken(name string) {
	w.Helper()
	if err := w.update(name); err != nil {
		w.Fatalf("push %s: %v", name, err)
	}
}

func TestAHostWithoutRoomIsToldUntilItTakesAPush(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", memstore.New())
	w.run()
	w.until("contact", func() bool { return w.repo.Health().Contacted })
	w.remote.SetFault(func(c memstore.Call) error {
		if c.Op != memstore.Push || c.After {
			return nil
		}
		return &store.NotTakenError{Reason: "the disk is full"}
	})
	for range 2 {
		if err := w.update("first"); err == nil {
			t.Fatal("it was taken")
		}
	}
	if reason, message := Explain(w.repo.Health().Err()); reason != ReasonNotTaken || !strings.Contains(message, "the disk is full") {
		t.Errorf("it says %s: %s", reason, message)
	}
	w.remote.SetFault(nil)
	w.taken("first")
	if err := w.repo.Health().Err(); err != nil {
		t.Errorf("it still says %v", err)
	}
}
