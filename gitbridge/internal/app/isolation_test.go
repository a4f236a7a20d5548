package app_test

import (
	"fmt"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
)

func testIsolation(t *world, apis apis) {
	t.Run("A14_equal names of two app clusters never meet", func(sub *testing.T) { testTwoTenants(t.with(sub), apis) })
}

func testTwoTenants(w *world, apis apis) {
	a, b := w.tenant(apis.postgresql), w.tenant(apis.postgresql)
	orders := path(apis.postgresql, "team-a", "orders")
	a.push("Order", map[string]string{orders: manifest(orders, nano)})
	b.push("Order", map[string]string{orders: manifest(orders, small)})
	a.wantAnswer(orders, contract.Applied)
	b.wantAnswer(orders, contract.Applied)
	a.wantObject(orders, "spec.plan", "postgresql-single-nano")
	b.wantObject(orders, "spec.plan", "postgresql-single-small")
	b.setStatus(orders, map[string]any{"managed": map[string]any{"clusterStatus": "B"}})
	b.eventually("b's status", func() error {
		if b.answer(orders).Status == nil {
			return fmt.Errorf("not yet")
		}
		return nil
	})
	if s := a.answer(orders).Status; s != nil {
		w.Errorf("a got b's status: %v", s)
	}
	before := b.object(orders)
	a.push("Cancel", map[string]string{orders: ""})
	a.wantAnswer(orders, contract.Gone)
	if after := b.object(orders); after == nil || after.GetResourceVersion() != before.GetResourceVersion() {
		w.Error("a's removal touched b's object")
	}
	if s := b.answer(orders); s.Result != contract.Applied {
		w.Errorf("b's answer is %s", s.Result)
	}

	// Even an object that says it is another's is not taken for it.
	forged := b.object(orders)
	forged.SetLabels(map[string]string{"gitbind.dev/cluster": a.id, "gitbind.dev/namespace": "team-a", "gitbind.dev/name": "orders"})
	w.must(w.admin.Update(w.Context(), forged))
	b.push("Touch", map[string]string{orders: manifest(orders, small) + "# touched\n"})
	b.eventually("the labels are put right", func() error { return is(b.object(orders).GetLabels()["gitbind.dev/cluster"], b.id) })
	if s := a.answer(orders); s.Result != contract.Gone {
		w.Errorf("a's answer is %s", s.Result)
	}
}

// can asks whether a tenant's ServiceAccount may do something.
func (t *tenant) can(verb, group, resource, namespace string) bool {
	t.Helper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:   "system:serviceaccount:" + v1alpha1.TenantNamespace(t.id) + ":" + v1alpha1.TenantServiceAccount,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + v1alpha1.TenantNamespace(t.id), "system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: verb, Group: group, Resource: resource, Namespace: namespace,
		},
	}}
	t.must(t.admin.Create(t.Context(), review))
	return review.Status.Allowed
}

func testHostile(w *world, apis apis) {
	victim, hostile := w.tenant(apis.postgresql), w.tenant(apis.postgresql)
	orders := path(apis.postgresql, "team-a", "orders")
	victim.push("Order", map[string]string{orders: manifest(orders, nano)})
	victim.wantAnswer(orders, contract.Applied)
	before := victim.object(orders)

	// Namespaces that mean something elsewhere are names like any other.
	for _, namespace := range []string{"kube-system", "default", "gitbind-system", victim.id + "-team-a", "gb-" + victim.id + "-team-a"} {
		p := path(apis.postgresql, namespace, "orders")
		hostile.push("Attack", map[string]string{p: manifest(p, small)})
		if s := hostile.wantAnswer(p, contract.Applied); s.Object != v1alpha1.TenantNamespace(hostile.id)+"-"+namespace+"/orders" {
			w.Errorf("%s became %s", namespace, s.Object)
		}
	}
	// Kinds that were not granted, though the bridge may hand them on, and kinds
	// that nobody offers.
	cache := path(apis.caches, "team-a", "c")
	hostile.push("Attack", map[string]string{cache: manifest(cache, "  size: small")})
	hostile.wantAnswer(cache, contract.Invalid, "is not bound")
	for _, binding := range []string{"secrets.core", "clusterroles.rbac.authorization.k8s.io", "clusterbindings.gitbind.dev"} {
		p := contract.Key{Binding: binding, Namespace: "team-a", Name: "x"}.Path()
		hostile.push("Attack", map[string]string{p: "apiVersion: v1\nkind: Secret\nmetadata: {name: x, namespace: team-a}\n"})
		hostile.wantAnswer(p, contract.Invalid)
	}

	// What the bridge makes for a tenant gives it nothing beyond.
	own := v1alpha1.TenantNamespace(hostile.id) + "-team-a"
	hostile.push("Order", map[string]string{orders: manifest(orders, nano)})
	hostile.wantAnswer(orders, contract.Applied)
	if !hostile.can("patch", "anynines.com", "postgresqlinstances", own) {
		w.Error("the tenant may not use its own API")
	}
	for _, namespace := range []string{v1alpha1.TenantNamespace(victim.id) + "-team-a", v1alpha1.TenantNamespace(victim.id), v1alpha1.TenantNamespace(hostile.id), "default", "kube-system", ""} {
		for _, verb := range []string{"get", "list", "create", "patch", "delete"} {
			if hostile.can(verb, "anynines.com", "postgresqlinstances", namespace) {
				w.Errorf("the tenant may %s in %q", verb, namespace)
			}
		}
	}
	for _, other := range []struct{ group, resource string }{{"", "secrets"}, {"", "configmaps"}, {"example.org", "caches"}, {"rbac.authorization.k8s.io", "rolebindings"}} {
		if hostile.can("get", other.group, other.resource, own) || hostile.can("create", other.group, other.resource, own) {
			w.Errorf("the tenant may use %s in its own namespace", other.resource)
		}
	}
	if after := victim.object(orders); after.GetResourceVersion() != before.GetResourceVersion() {
		w.Error("the victim's object was touched")
	}
}

func testForeignNamespace(w *world, apis apis) {
	t := w.tenant(apis.postgresql)
	for suffix, labels := range map[string]map[string]string{
		"plain":      nil,
		"other-life": {"gitbind.dev/cluster": t.id, "gitbind.dev/cluster-uid": "another"},
		"other":      {"gitbind.dev/cluster": "taaaaaaaaa", "gitbind.dev/cluster-uid": t.uid},
	} {
		w.must(w.admin.Create(w.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: v1alpha1.TenantNamespace(t.id) + "-" + suffix, Labels: labels, Annotations: map[string]string{"gitbind.dev/namespace": suffix},
		}}))
		orders := path(apis.postgresql, suffix, "orders")
		t.push("Order", map[string]string{orders: manifest(orders, nano)})
		t.wantAnswer(orders, contract.Failed, "is not this cluster's")
		if t.object(orders) != nil {
			w.Errorf("%s: it was used", suffix)
		}
		err := w.admin.Get(w.Context(), client.ObjectKey{Namespace: v1alpha1.TenantNamespace(t.id) + "-" + suffix, Name: "gitbind-tenant"}, &rbacv1.RoleBinding{})
		if !apierrors.IsNotFound(err) {
			w.Errorf("%s: rights were given in it: %v", suffix, err)
		}
	}
	good := path(apis.postgresql, "team-a", "orders")
	t.push("Order", map[string]string{good: manifest(good, nano)})
	t.wantAnswer(good, contract.Applied)
	binding := &rbacv1.RoleBinding{}
	w.must(w.admin.Get(w.Context(), client.ObjectKey{Namespace: t.object(good).GetNamespace(), Name: "gitbind-tenant"}, binding))
	if owners := binding.OwnerReferences; len(owners) != 1 || string(owners[0].UID) != t.uid {
		w.Errorf("the rights do not go with the ClusterBinding: %v", owners)
	}
	// Where they went with one of before, a claim goes all the same.
	w.must(w.admin.Delete(w.Context(), binding))
	t.remove(good)
	t.wantAnswer(good, contract.Gone)
}

func testLateRights(w *world, apis apis) {
	t := w.tenant(apis.postgresql)
	t.grant() // nothing
	orders := path(apis.postgresql, "team-a", "orders")
	t.push("Order", map[string]string{orders: manifest(orders, nano)})
	t.wantAnswer(orders, contract.Failed, "no right")
	t.wantObserved()
	t.grant(apis.postgresql)
	t.wantAnswer(orders, contract.Applied)

	// No export yet is another thing.
	cache := path(apis.caches, "team-a", "c")
	t.push("Order", map[string]string{cache: manifest(cache, "  size: small")})
	t.wantAnswer(cache, contract.Invalid, "is not bound")
	t.bind(apis.caches)
	t.wantAnswer(cache, contract.Applied)
}
