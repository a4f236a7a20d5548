package connection

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/breaker"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/guard"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/konnector/internal/agent/repository"
	"gitbind.dev/test/fakeapi"
	"gitbind.dev/test/githost"
)

// Reconciles of claims have a repository until their controller is stopped, which is after
// another one was opened in its place.
func TestARepositoryThatIsOpenedAgainKnowsAllThatWasSaved(t *testing.T) {
	t.Parallel()
	const id = "k3x9d2abqw"
	host := githost.New(t)
	host.Create(id, "secret")
	conn := &v1alpha1.Connection{ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "c1"}, Spec: v1alpha1.ConnectionSpec{RepositoryURL: host.URL(id), ClusterID: id}}
	var meanwhile func()
	api := fakeapi.New(fakeapi.Builder().WithStatusSubresource(conn).WithObjects(conn), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			err := c.Get(ctx, key, o, opts...)
			if then := meanwhile; then != nil {
				meanwhile = nil
				then()
			}
			return err
		},
	})
	r := &Reconciler{Client: api, Live: api, Pool: repository.NewPool(), Now: time.Now, Standing: func(string) repository.Standing { return repository.Standing{Alone: true} }}
	t.Cleanup(func() { r.close(conn.Name) })
	open := func() *repository.Repository {
		t.Helper()
		if p, err := r.connected.ensure(t.Context(), r, conn, credential{gitUser: "konnector", gitPassword: "secret"}, nil); p != nil || err != nil {
			t.Fatal(p, err)
		}
		return r.Pool.Get(conn.Name)
	}
	before := open()
	if _, err := before.Remote.Main.Update(t.Context(), store.Edit{Author: store.Signature{Name: "a", Email: "a@example.org"}, Subject: "s", Apply: func(tree *store.Tree) error {
		return tree.Write("bindings/x", nil)
	}}); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if _, err := before.View(t.Context()); err == nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	remove := func(name string) error {
		key := contract.Key{Binding: "caches.example.org", Namespace: "team-a", Name: name}
		if err := before.MayRemove(); err != nil {
			return err
		}
		return before.Removals.Begin(t.Context(), key, guard.Verdict{Passing: []breaker.Removal{{Path: key.Path(), At: time.Now()}}})
	}
	if _, _, unsaved := before.Checkpoints.Unsaved(); !unsaved {
		t.Fatal("what was accepted is saved, so this shows nothing")
	}

	conn.Spec.Namespaces = []string{"team-*"}
	began := errors.New("not tried")
	meanwhile = func() { began = remove("a") }
	now, _, _ := open().Checkpoints.Unsaved()
	if was, _, _ := before.Checkpoints.Unsaved(); now.Accepted == "" || now.Accepted != was.Accepted {
		t.Errorf("main was accepted up to %q, and counts from %q", was.Accepted, now.Accepted)
	}
	if known := len(now.Removals) > 0; known != (began == nil) {
		t.Errorf("a removal that began while it was opened: %v, known: %t", began, known)
	}
	if err := remove("b"); !errors.Is(err, repository.ErrSuspended) {
		t.Errorf("one more after that: %v", err)
	}
	if err := before.Checkpoints.Save(t.Context()); !errors.Is(err, repository.ErrSuspended) {
		t.Errorf("what the one before knows is saved: %v", err)
	}
}
