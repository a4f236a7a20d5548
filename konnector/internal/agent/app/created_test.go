package app_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store"
)

// TestKilledBetweenCreationAndStatus has a konnector create an object from a file
// and end before it writes its status. The file is removed or changed meanwhile.
func TestKilledBetweenCreationAndStatus(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	// Others, beside which one removal is not many.
	for _, name := range []string{"first", "second", "third"} {
		w.apply(name, spec("small"))
		w.committed(name)
	}
	w.stop()
	whole := w.cluster
	cut := *whole
	cut.konnector = rest.CopyConfig(whole.konnector)
	cut.konnector.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodGet && strings.HasSuffix(r.URL.Path, "/status") && strings.Contains(r.URL.Path, "/postgresqlinstances/") {
				return nil, errors.New("the network is gone")
			}
			return next.RoundTrip(r)
		})
	})
	w.cluster = &cut
	w.start()
	w.commit("removed", "service: a9s-postgresql13", "plan: small")
	w.commit("changed", "service: a9s-postgresql13", "plan: small")
	w.objectIs("removed", plan("small"))
	w.objectIs("changed", plan("small"))
	w.stop()

	w.cluster = whole
	_, err := w.person.Update(t.Context(), store.Edit{
		Author: store.Signature{Name: "Ada", Email: "ada@example.org"}, Subject: "Remove",
		Apply: func(tree *store.Tree) error { return tree.Remove(w.key("removed").Path()) },
	})
	w.must(err)
	w.commit("changed", "service: a9s-postgresql13", "plan: big")
	before := w.log("%H")[0]
	w.start()
	w.objectIs("changed", plan("big"))
	w.committed("changed")
	w.eventually("the object whose file was removed is going", func() error {
		if u := w.get("removed"); u.GetDeletionTimestamp() == nil {
			return errors.New("it stays")
		}
		return nil
	})
	if now := w.log("%H")[0]; now != before {
		t.Errorf("the konnector committed something: %v", w.log("%h %s"))
	}
}

// TestDeletedBeforeItWasCommitted has a name used again, by an object that goes
// before Git hears of it: the only tombstone is that of the one before.
func TestDeletedBeforeItWasCommitted(t *testing.T) {
	t.Parallel()
	w := newAttributedLoop(t)
	w.apply("orders", spec("small"))
	w.committed("orders")
	first := string(w.get("orders").GetUID())
	w.deleteObject("orders")
	w.fileGone("orders")
	w.answer("orders", contract.Status{Result: contract.Gone, UID: first})
	w.objectGone("orders")

	w.host.setDown(true)
	w.apply("orders", spec("small"))
	w.deleteObject("orders")
	w.host.setDown(false)
	// A push that was under way when the host went may have arrived after all, and what
	// it made is removed again: only then is the konnector done.
	w.conditionIs("orders", "Committed", "Removed")
	w.connectionIs("Connected")
	w.never("it goes though the control plane may know of it", func() bool { return w.get("orders") == nil })
	w.observe()
	w.objectGone("orders")
}
