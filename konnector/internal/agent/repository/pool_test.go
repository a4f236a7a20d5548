package repository

import (
	"context"
	"testing"

	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/memstore"
)

// A reconcile that is under way when the process ends may open one more.
func TestAPoolThatHasEndedRunsNothing(t *testing.T) {
	p := NewPool()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Start(ctx); err != nil {
		t.Fatal(err)
	}
	remote := memstore.New()
	r := p.Open(t.Context(), Options{
		Connection: "default",
		Remote: Remote{
			Main: remote.Branch("main"), Status: remote.Branch("status"),
			Listen: func(context.Context, func(string, store.Hash), func(error)) { t.Error("it listens") },
		},
	})
	if !r.Suspended() || p.Get("default") != nil {
		t.Errorf("suspended: %v, open: %v", r.Suspended(), p.Get("default"))
	}
}
