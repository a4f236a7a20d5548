package request

import (
	"context"
	"errors"
	"testing"
	"time"

	"gitbind.dev/gitbridge/contract"
	decide "gitbind.dev/gitbridge/internal/request"
	"gitbind.dev/gitbridge/internal/session"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/memstore"
)

// A host may take no answers for a while: status then says nothing of what was applied.
func TestAClaimRemainsThatHasAnObjectThoughStatusSaysNothingOfIt(t *testing.T) {
	const binding = "caches.example.org"
	remote, objects := memstore.New(), map[string]store.Hash{}
	c := &Controller{Session: session.New(session.Options{
		Main: remote.Branch("main"), Status: remote.Branch("status"), Now: time.Now,
		OnControlPlane: func(of string) map[string]store.Hash {
			if of != binding {
				return nil
			}
			return objects
		},
	})}
	has, isServed := true, true
	c.HasObjects = func(context.Context, string) (bool, bool, error) { return has, isServed, nil }
	s := &step{Facts: decide.Facts{Binding: binding}}
	if claim, err := c.remaining(t.Context(), s); claim != "" || !errors.Is(err, errObjectsUnknown) {
		t.Errorf("before objects are known: %q, %v", claim, err)
	}
	c.Session.ObjectsKnown()
	if claim, err := c.remaining(t.Context(), s); claim != "" || err != nil {
		t.Errorf("there are none: %q, %v", claim, err)
	}
	for _, name := range []string{"payments", "orders"} {
		objects[contract.Key{Binding: binding, Namespace: "team-a", Name: name}.Path()] = ""
	}
	if claim, err := c.remaining(t.Context(), s); claim != "team-a/orders" || err != nil {
		t.Errorf("there are two: %q, %v", claim, err)
	}
	has = false
	if claim, err := c.remaining(t.Context(), s); claim != "" || err != nil {
		t.Errorf("of a version that is served no more, and gone: %q, %v", claim, err)
	}
	isServed = false
	if claim, err := c.remaining(t.Context(), s); claim != "team-a/orders" || err != nil {
		t.Errorf("of which no version is served: %q, %v", claim, err)
	}
}

func TestAClaimRemainsWhoseAnswerCannotBeRead(t *testing.T) {
	t.Parallel()
	key := contract.Key{Binding: "caches.example.org", Namespace: "team-a", Name: "orders"}
	remote := memstore.New()
	status := remote.Branch("status")
	_, err := status.Update(t.Context(), store.Edit{
		Author: store.Signature{Name: "alice", Email: "a@example.org"}, Subject: "merge",
		Apply: func(t *store.Tree) error { return t.Write(contract.StatusPath(key.Path()), []byte("<<<<<<< HEAD\n")) },
	})
	if err != nil {
		t.Fatal(err)
	}
	c := &Controller{Session: session.New(session.Options{Main: remote.Branch("main"), Status: status, Now: time.Now})}
	if claim, err := c.remaining(t.Context(), &step{Facts: decide.Facts{Binding: key.Binding}}); claim != "team-a/orders" || err != nil {
		t.Errorf("remains %q, %v", claim, err)
	}
}
