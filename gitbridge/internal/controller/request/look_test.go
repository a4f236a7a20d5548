package request

import (
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
	s := &step{Facts: decide.Facts{Binding: binding}}
	if claim, err := c.remaining(s); claim != "" || !errors.Is(err, errObjectsUnknown) {
		t.Errorf("before objects are known: %q, %v", claim, err)
	}
	c.Session.ObjectsKnown()
	if claim, err := c.remaining(s); claim != "" || err != nil {
		t.Errorf("there are none: %q, %v", claim, err)
	}
	for _, name := range []string{"payments", "orders"} {
		objects[contract.Key{Binding: binding, Namespace: "team-a", Name: name}.Path()] = ""
	}
	if claim, err := c.remaining(s); claim != "team-a/orders" || err != nil {
		t.Errorf("there are two: %q, %v", claim, err)
	}
}
