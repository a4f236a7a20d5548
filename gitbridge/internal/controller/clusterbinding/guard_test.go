package clusterbinding

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/internal/session"
	"gitbind.dev/gitbridge/internal/tenant"
	"gitbind.dev/gitbridge/lease"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/test/fakeapi"
	"gitbind.dev/test/githost"
)

// A bridge that was stopped goes on where it was: between a decision and its push, perhaps.
func TestABridgeWithoutItsLeasePushesNothing(t *testing.T) {
	const id, namespace = "k3x9d2abqw", "gb-k3x9d2abqw"
	host := githost.New(t)
	host.Create(id, "secret")
	api := fakeapi.New(fakeapi.Builder().WithObjects(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: v1alpha1.BridgeSecret},
		Data:       map[string][]byte{"username": []byte("bridge"), "password": []byte("secret")},
	}))
	options := lease.Default()
	options.Namespace, options.Name = v1alpha1.SystemNamespace, "gitbind-gitbridge"
	for name, elect := range map[string]bool{"held": false, "lost": true} {
		options.Elect = elect
		l, err := lease.New(&rest.Config{}, options)
		if err != nil {
			t.Fatal(err)
		}
		r := &Reconciler{Client: api, Server: api, Guard: l.Guard, Now: time.Now}
		repo, err := r.open(t.Context(), &follower{cluster: tenant.Cluster{ID: id, Namespace: namespace}, url: host.URL(id)})
		if err != nil {
			t.Fatal(err)
		}
		before := host.Head(id, "status")
		_, err = repo.Branch("status").Update(t.Context(), store.Edit{Subject: "status: " + name, Apply: func(tree *store.Tree) error {
			return tree.Write("observed.yaml", []byte(name))
		}})
		if errors.Is(err, lease.ErrNotHeld) != elect || !elect && err != nil || (host.Head(id, "status") == before) != elect {
			t.Errorf("%s: %v, status at %q, before at %q", name, err, host.Head(id, "status"), before)
		}
	}
}

// After a move the bridge's Secret may be of the next host before the ClusterBinding names that.
func TestTheBridgesCredentialIsShownOnlyToTheHostOfItsRepository(t *testing.T) {
	t.Parallel()
	const id, namespace = "k3x9d2abqw", "gb-k3x9d2abqw"
	host := githost.New(t)
	host.Create(id, "secret")
	for at, missing := range map[string]bool{"": false, host.URL(id): false, "https://next.example.com/" + id: true} {
		api := fakeapi.New(fakeapi.Builder().WithObjects(&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: v1alpha1.BridgeSecret},
			Data:       map[string][]byte{"username": []byte("bridge"), "password": []byte("secret"), v1alpha1.RepositoryURLKey: []byte(at)},
		}))
		l, err := lease.New(&rest.Config{}, lease.Options{Namespace: v1alpha1.SystemNamespace, Name: "gitbind-gitbridge"})
		if err != nil {
			t.Fatal(err)
		}
		r := &Reconciler{Client: api, Server: api, Guard: l.Guard, Now: time.Now}
		repo, err := r.open(t.Context(), &follower{cluster: tenant.Cluster{ID: id, Namespace: namespace}, url: host.URL(id)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := repo.Branch("main").Fetch(t.Context()); errors.Is(err, session.ErrNoCredential) != missing || !missing && err != nil {
			t.Errorf("of %q: %v", at, err)
		}
	}
}
