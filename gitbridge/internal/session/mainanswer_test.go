package session

import (
	"errors"
	"testing"
	"time"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/statusbranch"
	"gitbind.dev/gitbridge/store/memstore"
)

// What is wrong with main was said, and the reply was lost: it is taken back all the same.
func TestWhatIsWrongWithMainIsTakenBackThoughNoReplyCame(t *testing.T) {
	t.Parallel()
	remote := memstore.New()
	status := statusbranch.New(remote.Branch("status"), time.Now)
	status.Open("e1", contract.Observed{}, 0)
	if err := status.Start(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	a := &mainAnswer{status: status, stops: &Stops{}, news: make(chan struct{}, 1)}
	isSaid := func() bool {
		t.Helper()
		snap, err := remote.Branch("status").Fetch(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, said := snap.Entry(contract.MainAnswerPath)
		return said
	}
	remote.CutAfterPush(errors.New("connection reset"))
	a.set(contract.Invalid, "1", "wrong")
	if err := a.write(t.Context()); err == nil {
		t.Fatal("no error")
	}
	remote.SetFault(nil)
	if !isSaid() {
		t.Fatal("it did not land")
	}
	a.set(contract.Invalid, "2", "")
	if err := a.write(t.Context()); err != nil || isSaid() {
		t.Errorf("it is still said, %v", err)
	}
}
