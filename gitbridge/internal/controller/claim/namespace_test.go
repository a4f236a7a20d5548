package claim

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"gitbind.dev/gitbridge/internal/tenant"
)

func TestANamespaceIsMadeOnceForAllWhoWantIt(t *testing.T) {
	api := fake.NewClientset()
	var down atomic.Bool
	down.Store(true)
	api.PrependReactor("create", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
		return down.Load(), nil, apierrors.NewInternalError(errors.New("down"))
	})
	n := &namespaces{cluster: tenant.Cluster{ID: "k3x9d2abqw", UID: "u1", Namespace: "gitbind-k3x9d2abqw"}, client: api}
	want := func(who string, ok bool, calls ...string) {
		t.Helper()
		api.ClearActions()
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if err := n.ensure(t.Context(), "team-a"); (err == nil) != ok {
					t.Errorf("%s: %v", who, err)
				}
			})
		}
		all.Wait()
		var made []string
		for _, a := range api.Actions() {
			made = append(made, a.GetVerb()+" "+a.GetResource().Resource)
		}
		if ok && !slices.Equal(made, calls) {
			t.Errorf("%s: %q, want %q", who, made, calls)
		}
	}
	want("the API server is down", false)
	down.Store(false)
	want("it answers", true, "get namespaces", "create namespaces", "get rolebindings", "create rolebindings")
	want("it is known", true)
	n.forget("team-a")
	want("it is looked at again", true, "get namespaces", "get rolebindings")

	other := &namespaces{cluster: tenant.Cluster{ID: "k3x9d2abqw", UID: "u2", Namespace: "gitbind-k3x9d2abqw"}, client: api}
	if err := other.ensure(t.Context(), "team-a"); !errors.Is(err, errForeignNamespace) {
		t.Errorf("of another cluster: %v", err)
	}
	if err := n.ensure(t.Context(), "team-b"); err != nil || n.cluster.ClaimNamespace("team-b") == n.cluster.ClaimNamespace("team-a") {
		t.Errorf("another namespace: %v", err)
	}
}
