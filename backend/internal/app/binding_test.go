package app

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/test/env"
)

// testCatalogue lists what somebody may bind, with what a page needs to group it.
func (f *fixture) testCatalogue(t *testing.T) {
	f.kubectl(t, "apply", "--server-side", "-f", "testdata/catalogue.yaml")
	defer f.kubectl(t, "delete", "-f", "testdata/catalogue.yaml")
	c := f.connect(t, env.Bob, "catalogue")
	list := func() map[string]restapi.Offer {
		var catalog []restapi.Offer
		if status, message := f.call(t, f.tokens[env.Bob], "GET", "/v1/catalog", nil, &catalog); status != http.StatusOK {
			t.Fatalf("%d %s", status, message)
		}
		offers := map[string]restapi.Offer{}
		for _, o := range catalog {
			offers[o.Name] = o
		}
		return offers
	}
	database := v1alpha1.ExportedAPI{Group: "example.com", Version: "v1", Resource: "databases"}
	want := map[string]restapi.Offer{
		"small": {Name: "small", API: database, Kind: "Database", DisplayName: "Small database", Group: "Databases", Description: "Enough to try"},
		"plain": {Name: "plain", API: database, Kind: "Database", DisplayName: "Database"},
	}
	t.Run("A2_a person sees what they may bind and nothing else", func(t *testing.T) {
		eventually(t, "what may be bound is listed", func() error {
			if offers := list(); len(offers) != 2 {
				return fmt.Errorf("got %+v", offers)
			}
			return nil
		})
	})
	t.Run("A3_offers have a name and a heading and say which clusters have them", func(t *testing.T) {
		if diff := cmp.Diff(want, list()); diff != "" {
			t.Error(diff)
		}
		f.bind(t, env.Bob, c.ID, "small")
		small := want["small"]
		small.Bound = []string{"test"}
		eventually(t, "the catalogue says who has it", func() error {
			if diff := cmp.Diff(small, list()["small"]); diff != "" {
				return fmt.Errorf("%s", diff)
			}
			return nil
		})
		if other := list()["plain"]; other.Bound != nil {
			t.Errorf("another offer of the same API is bound, too: %+v", other)
		}
	})
}

// bind binds an offer for a user, who must be able to.
func (f *fixture) bind(t *testing.T, user, cluster, offer string) restapi.Binding {
	t.Helper()
	var b restapi.Binding
	if status, message := f.call(t, f.tokens[user], "POST", "/v1/clusters/"+cluster+"/bindings", restapi.BindRequest{Offer: offer}, &b); status != http.StatusOK {
		t.Fatalf("bind %s: %d %s", offer, status, message)
	}
	return b
}

// mayBind asks for a tenant what the bridge asks.
func (f *fixture) mayBind(t *testing.T, cluster, template string, want bool) {
	t.Helper()
	namespace := v1alpha1.TenantNamespace(cluster)
	eventually(t, fmt.Sprintf("whether %s may be bound in Git is %v", template, want), func() error {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:   "system:serviceaccount:" + namespace + ":" + v1alpha1.TenantServiceAccount,
			Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: "bind", Group: v1alpha1.GroupVersion.Group, Resource: "apiserviceexporttemplates", Name: template,
			},
		}}
		if err := f.admin.Create(t.Context(), review); err != nil {
			return err
		}
		if review.Status.Allowed != want {
			return fmt.Errorf("got %v", review.Status)
		}
		return nil
	})
}

// testBindInGit: what a person binds may be bound in Git from then on, and
// nothing beside it.
func (f *fixture) testBindInGit(t *testing.T) {
	f.kubectl(t, "apply", "--server-side", "-f", "testdata/catalogue.yaml")
	defer f.kubectl(t, "delete", "-f", "testdata/catalogue.yaml")
	c, other := f.connect(t, env.Bob, "bind-git"), f.connect(t, env.Bob, "bind-git-other")
	eventually(t, "it can be bound", func() error {
		status, message := f.call(t, f.tokens[env.Bob], "POST", "/v1/clusters/"+c.ID+"/bindings", restapi.BindRequest{Offer: "small"}, nil)
		if status != http.StatusOK {
			return fmt.Errorf("%d %s", status, message)
		}
		return nil
	})
	answer := f.bind(t, env.Bob, c.ID, "small")
	if answer != (restapi.Binding{Name: "databases.example.com", Offer: "small"}) {
		t.Errorf("the answer does not say what to apply: %+v", answer)
	}
	export := &v1alpha1.APIServiceExport{}
	if err := f.admin.Get(t.Context(), client.ObjectKey{Namespace: v1alpha1.TenantNamespace(c.ID), Name: answer.Name}, export); err != nil {
		t.Fatal(err)
	}
	if owners := export.OwnerReferences; len(owners) != 1 || owners[0].UID != f.binding(t, c.ID).UID {
		t.Errorf("the export is owned by %+v", owners)
	}
	f.mayBind(t, c.ID, "small", true)
	f.mayBind(t, c.ID, "plain", false)
	f.mayBind(t, c.ID, "", false)
	f.mayBind(t, other.ID, "small", false)

	// An operator takes it away. What is bound later does not bring it back.
	role := metav1.ObjectMeta{Name: v1alpha1.TenantBindRole(c.ID)}
	if err := f.admin.Delete(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: role}); err != nil {
		t.Fatal(err)
	}
	f.mayBind(t, c.ID, "small", false)
	unbind := &v1alpha1.APIServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: export.Namespace, Name: export.Name}}
	if err := f.admin.Delete(t.Context(), unbind.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	f.bind(t, env.Bob, c.ID, "plain")
	f.mayBind(t, c.ID, "plain", true)
	f.mayBind(t, c.ID, "small", false)

	// Unbound is unbound.
	if err := f.admin.Delete(t.Context(), unbind); err != nil {
		t.Fatal(err)
	}
	f.mayBind(t, c.ID, "plain", false)

	f.bind(t, env.Bob, c.ID, "small")
	f.mayBind(t, c.ID, "small", true)
	if err := f.admin.Delete(t.Context(), f.binding(t, c.ID)); err != nil {
		t.Fatal(err)
	}
	for _, o := range []client.Object{&rbacv1.ClusterRole{ObjectMeta: role}, &rbacv1.ClusterRoleBinding{ObjectMeta: role}} {
		eventually(t, fmt.Sprintf("%T goes with the ClusterBinding", o), func() error {
			err := f.admin.Get(t.Context(), client.ObjectKeyFromObject(o), o)
			if err == nil {
				return fmt.Errorf("%s is there", o.GetName())
			}
			return client.IgnoreNotFound(err)
		})
	}
}

func (f *fixture) testHeartbeat(t *testing.T) {
	c := f.connect(t, env.Alice, "heartbeat")
	cb := f.binding(t, c.ID)
	if err := f.admin.Patch(t.Context(), cb.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"gitbind.dev/shard":"nobody"}}}`))); err != nil {
		t.Fatal(err)
	}
	connected := func(want metav1.ConditionStatus) *metav1.Condition {
		t.Helper()
		return f.condition(t, cb, func() []metav1.Condition { return cb.Status.Conditions }, v1alpha1.ConditionConnected, want)
	}
	connected(metav1.ConditionUnknown)
	if cb.Status.LastSeen != nil {
		t.Errorf("it was seen at %s before it came", cb.Status.LastSeen)
	}
	before := time.Now().Truncate(time.Second)
	if _, err := gitRemote(t, c.RepositoryURL, c.Credential.Username, c.Credential.Password); err != nil {
		t.Fatal(err)
	}
	connected(metav1.ConditionTrue)
	seen := cb.Status.LastSeen
	if seen == nil || seen.Time.Before(before) || seen.After(time.Now()) {
		t.Fatalf("last seen %v, asked for at %s", seen, before)
	}
	if ready := f.condition(t, cb, func() []metav1.Condition { return cb.Status.Conditions }, v1alpha1.ConditionReady, metav1.ConditionTrue); ready.Reason != "Ready" {
		t.Errorf("what others write is %+v", ready)
	}
	// No bridge of its shard runs in this test.
	if c := f.condition(t, cb, func() []metav1.Condition { return cb.Status.Conditions }, v1alpha1.ConditionUnattended, metav1.ConditionTrue); c.Reason != "NoBridge" {
		t.Errorf("that no bridge runs is told as %+v", c)
	}
	// A backend that comes back has heard of nobody yet, and says nothing of it.
	version := cb.ResourceVersion
	f.stop()
	f.run(t)
	lost := f.connect(t, env.Alice, "heartbeat-lost")
	lostBinding := f.binding(t, lost.ID)
	f.condition(t, lostBinding, func() []metav1.Condition { return lostBinding.Status.Conditions }, v1alpha1.ConditionConnected, metav1.ConditionUnknown)
	var own []restapi.Cluster
	f.call(t, f.tokens[env.Alice], "GET", "/v1/clusters", nil, &own)
	if !slices.ContainsFunc(own, func(o restapi.Cluster) bool {
		return o.ID == c.ID && o.Connected == "True" && o.LastSeen != nil && o.LastSeen.Equal(seen.Time)
	}) {
		t.Errorf("over HTTP it is said that %+v", own)
	}
	if now := f.binding(t, c.ID); now.ResourceVersion != version {
		t.Errorf("a restart wrote %+v", now.Status)
	}
	// One that it did not hear of for long is told, with the time.
	long := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
	u := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"lastSeen": long.UTC().Format(time.RFC3339)}}}
	u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("ClusterBinding"))
	u.SetName(lost.ID)
	absent := func() error {
		return f.admin.Status().Apply(t.Context(), client.ApplyConfigurationFromUnstructured(u.DeepCopy()), client.FieldOwner("gitbind-backend-heartbeat"), client.ForceOwnership)
	}
	if err := absent(); err != nil {
		t.Fatal(err)
	}
	cb = f.binding(t, lost.ID)
	want := "not seen since " + long.UTC().Format(time.RFC3339)
	if c := connected(metav1.ConditionFalse); !strings.HasPrefix(c.Message, want) || c.Reason != "NotSeen" {
		t.Errorf("got %q, want %q", c.Message, want)
	}
	// One that left is told apart. The cache may not have its Secret at once.
	f.call(t, f.tokens[env.Alice], "DELETE", "/v1/clusters/"+lost.ID+"/credential", nil, nil)
	eventually(t, "it is disconnected", func() error {
		c := connected(metav1.ConditionFalse)
		if c.Reason == "Disconnected" {
			return nil
		}
		return errors.Join(fmt.Errorf("its reason is %s", c.Reason), absent())
	})
}
