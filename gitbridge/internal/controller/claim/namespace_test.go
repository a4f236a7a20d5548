package claim

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"gitbind.dev/gitbridge/contract"
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

func TestH4_AClusterHasANumberOfNamespacesAndNoMore(t *testing.T) {
	api := fake.NewClientset()
	start := func() *namespaces {
		return &namespaces{cluster: tenant.Cluster{ID: "k3x9d2abqw", UID: "u1", Namespace: "gb-k3x9d2abqw"}, client: api, most: 3}
	}
	n := start()
	for _, name := range []string{"a", "b", "c"} {
		if err := n.ensure(t.Context(), name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// After a restart, too, and however many ask.
	for _, n := range []*namespaces{n, start()} {
		api.ClearActions()
		for i := range 10 {
			if err := n.ensure(t.Context(), fmt.Sprint("more-", i)); !errors.Is(err, errTooManyNamespaces) {
				t.Errorf("a fourth: %v", err)
			}
		}
		lists := 0
		for _, a := range api.Actions() {
			if a.GetVerb() == "list" {
				lists++
			}
		}
		if lists > 1 {
			t.Errorf("counted %d times", lists)
		}
		if err := n.ensure(t.Context(), "a"); err != nil {
			t.Errorf("one that is there: %v", err)
		}
	}
	// Others have their own.
	other := &namespaces{cluster: tenant.Cluster{ID: "z", UID: "u2", Namespace: "gb-z"}, client: api, most: 3}
	if err := other.ensure(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	// What an operator removed makes room.
	if err := api.CoreV1().Namespaces().Delete(t.Context(), n.cluster.ClaimNamespace("b"), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	n.countedAt = n.countedAt.Add(-2 * countAgain)
	if err := n.ensure(t.Context(), "more"); err != nil {
		t.Errorf("after one has gone: %v", err)
	}
	v := verdictOn(&step{}, errTooManyNamespaces)
	if v.result != contract.Denied || !strings.Contains(v.problem.Reason, "--max-namespaces") {
		t.Errorf("told as %+v", v)
	}
}
