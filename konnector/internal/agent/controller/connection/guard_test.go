package connection

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/lease"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/konnector/internal/agent/repository"
	"gitbind.dev/test/fakeapi"
	"gitbind.dev/test/githost"
)

// A konnector that was stopped goes on where it was: between a decision and its push, perhaps.
func TestAKonnectorWithoutItsLeasePushesNothing(t *testing.T) {
	const id = "k3x9d2abqw"
	host := githost.New(t)
	host.Create(id, "secret")
	conn := &v1alpha1.Connection{ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "c1"}, Spec: v1alpha1.ConnectionSpec{RepositoryURL: host.URL(id), ClusterID: id}}
	api := fakeapi.New(fakeapi.Builder().WithObjects(conn))
	options := lease.Default()
	options.Namespace, options.Name = "gitbind-system", "gitbind-konnector"
	for name, elect := range map[string]bool{"held": false, "lost": true} {
		options.Elect = elect
		l, err := lease.New(&rest.Config{}, options)
		if err != nil {
			t.Fatal(err)
		}
		r := &Reconciler{Client: api, Live: api, Pool: repository.NewPool(), Guard: l.Guard, Now: time.Now}
		if p, err := new(connections).ensure(t.Context(), r, conn, credential{gitUser: "konnector", gitPassword: "secret"}, nil); p != nil || err != nil {
			t.Fatal(p, err)
		}
		before := host.Head(id, "main")
		_, err = r.Pool.Get(conn.Name).Remote.Main.Update(t.Context(), store.Edit{Author: store.Signature{Name: "a", Email: "a@example.org"}, Subject: name, Apply: func(tree *store.Tree) error {
			return tree.Write("bindings/x", []byte(name))
		}})
		if errors.Is(err, lease.ErrNotHeld) != elect || !elect && err != nil || (host.Head(id, "main") == before) != elect {
			t.Errorf("%s: %v, main at %q, before at %q", name, err, host.Head(id, "main"), before)
		}
		r.Pool.Close(conn.Name)
	}
}
