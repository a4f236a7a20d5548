package app_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
)

// testForeignObject: an object that is not a claim's own is not overwritten.
func testForeignObject(t *world, apis apis) {
	t.Run("B5_a foreign object is not overwritten and that is said", t.alone(apis, foreignObject))
}

// testForeign is about foreign objects and one bridge.
func testForeign(t *world, apis apis) {
	t.Run("B6_removing a claim leaves the foreign object", t.beside(apis, foreignStays))
	t.Run("B7_an operator hands an object over", t.beside(apis, adoption))
}

// foreign makes an object where a claim's would be, and gives it.
func (t *tenant) foreign(path string) *unstructured.Unstructured {
	t.Helper()
	key, err := contract.ParsePath(path)
	t.must(err)
	// The bridge has made the namespace.
	first := contract.Key{Binding: key.Binding, Namespace: key.Namespace, Name: "first"}.Path()
	t.push("Order", map[string]string{first: manifest(first, nano)})
	t.wantAnswer(first, contract.Applied)
	u := t.object(first)
	made := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"service": "a9s-postgresql13", "plan": "postgresql-single-big"}}}
	made.SetGroupVersionKind(u.GroupVersionKind())
	made.SetNamespace(u.GetNamespace())
	made.SetName(key.Name)
	t.must(t.admin.Create(t.Context(), made))
	made.Object["status"] = map[string]any{"managed": map[string]any{"clusterStatus": "Theirs"}}
	t.must(t.admin.Status().Update(t.Context(), made))
	return made
}

func (t *tenant) wantSame(before *unstructured.Unstructured) {
	t.Helper()
	after := before.DeepCopy()
	t.must(t.admin.Get(t.Context(), client.ObjectKeyFromObject(before), after))
	if after.GetResourceVersion() != before.GetResourceVersion() {
		t.Errorf("it was %v and is %v", before, after)
	}
}

// wantForeign waits until the ClusterBinding counts so many.
func (t *tenant) wantForeign(n int32) *metav1.Condition {
	t.Helper()
	var c *metav1.Condition
	t.eventually(fmt.Sprintf("%d are counted", n), func() error {
		b := t.clusterBinding()
		if c = meta.FindStatusCondition(b.Status.Conditions, v1alpha1.ConditionForeignObjects); b.Status.Foreign != n || (c != nil) != (n > 0) {
			return fmt.Errorf("%d, %+v", b.Status.Foreign, c)
		}
		return nil
	})
	return c
}

func foreignObject(t *tenant, apis apis) {
	t.bind(apis.postgresql)
	orders := postgresqlPath(apis, "orders")
	theirs := t.foreign(orders)
	t.push("Order", map[string]string{orders: manifest(orders, nano)})
	s := t.wantAnswer(orders, contract.Held, "that is not this claim's", "gitbind.dev/adopt="+t.id)
	if s.Reason != contract.Foreign || s.Status != nil || s.Object != "" {
		t.Errorf("%+v", s)
	}
	t.wantObserved()
	if c := t.wantForeign(1); !strings.Contains(c.Message, "team-a/orders (postgresqlinstances.anynines.com)") {
		t.Errorf("%+v", c)
	}
	t.eventually("an Event tells of it", func() error {
		var list eventsv1.EventList
		if err := t.admin.List(t.Context(), &list); err != nil {
			return err
		}
		for _, e := range list.Items {
			if e.Regarding.Name == t.id && e.Reason == v1alpha1.ConditionForeignObjects && e.Type == corev1.EventTypeWarning && strings.Contains(e.Note, "team-a/orders") {
				return nil
			}
		}
		return fmt.Errorf("%d Events", len(list.Items))
	})
	t.push("Grow", map[string]string{orders: manifest(orders, small)})
	t.eventually("the change is answered", func() error { return is(t.answer(orders).Answers.Commit, t.host.head(t.id, "main")) })
	t.wantSame(theirs)
	// It is still so after a restart, and when it goes the claim has its place.
	t.restarted()
	t.wantForeign(1)
	t.wantSame(theirs)
	t.must(t.admin.Delete(t.Context(), theirs))
	t.wantAnswer(orders, contract.Applied)
	t.wantForeign(0)
}

func foreignStays(t *tenant, apis apis) {
	t.bind(apis.postgresql)
	orders := postgresqlPath(apis, "orders")
	theirs := t.foreign(orders)
	t.push("Order", map[string]string{orders: manifest(orders, nano)}, object(orders, "u1"))
	t.wantAnswer(orders, contract.Held)
	t.push("Cancel", map[string]string{orders: ""}, object(orders, "u1"))
	if s := t.wantAnswer(orders, contract.Gone); s.UID != "u1" {
		t.Errorf("%+v", s)
	}
	t.wantForeign(0)
	t.wantSame(theirs)
}

func adoption(t *tenant, apis apis) {
	t.bind(apis.postgresql)
	const big = "  service: a9s-postgresql13\n  plan: postgresql-single-big\n  parameters: {maxConnections: 120}"
	orders := postgresqlPath(apis, "orders")
	theirs := t.foreign(orders)
	t.annotate(theirs, v1alpha1.AdoptAnnotation, "another")
	t.push("Order", map[string]string{orders: manifest(orders, big)})
	t.wantAnswer(orders, contract.Held)
	t.annotate(theirs, v1alpha1.AdoptAnnotation, t.id)
	t.wantAnswer(orders, contract.Applied)
	u := t.wantObject(orders, "spec.plan", "postgresql-single-big")
	if t.answer(orders).Object == "" || u.GetUID() != theirs.GetUID() || u.GetLabels()["gitbind.dev/name"] != "orders" {
		t.Errorf("it is %v", u)
	}
	t.wantForeign(0)
	t.push("Cancel", map[string]string{orders: ""})
	t.wantAnswer(orders, contract.Gone)
	if t.object(orders) != nil {
		t.Error("what was handed over stays")
	}
}

// testUpAndDown plays what travels between a claim and its object.
func testUpAndDown(t *world, apis apis) {
	c := t.tenant(apis.postgresql)
	orders := postgresqlPath(apis, "orders")
	t.Run("A6_a claim appears with labels that lead back", func(t *testing.T) {
		c.push("Order", map[string]string{orders: manifest(orders, nano+"\n  parameters: {maxConnections: 120}")}, object(orders, "u1"))
		u := c.wantObject(orders, "spec.plan", "postgresql-single-nano")
		for label, want := range map[string]string{"gitbind.dev/cluster": c.id, "gitbind.dev/namespace": "team-a", "gitbind.dev/name": "orders"} {
			if got := u.GetLabels()[label]; got != want {
				t.Errorf("%s is %q, want %q", label, got, want)
			}
		}
	})
	t.Run("A7_objects lead to their export and go with nothing but their claim", func(t *testing.T) {
		u := c.wantObject(orders, "spec.plan", "postgresql-single-nano")
		// The export is where the label cluster and the API lead to. An owner
		// reference would delete services with an export.
		e := c.export(apis.postgresql)
		if e == nil || e.Namespace != v1alpha1.TenantNamespace(u.GetLabels()["gitbind.dev/cluster"]) || e.Spec.API.BindingName() != "postgresqlinstances."+u.GroupVersionKind().Group {
			t.Errorf("the export is %+v", e)
		}
		if owners := u.GetOwnerReferences(); len(owners) > 0 {
			t.Errorf("the object is owned by %+v", owners)
		}
	})
	t.Run("A9_a changed and a removed field go up", func(t *testing.T) {
		c.push("Grow", map[string]string{orders: manifest(orders, small)})
		u := c.wantObject(orders, "spec.plan", "postgresql-single-small")
		if got, ok, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "parameters"); ok {
			t.Errorf("parameters are %v though the file has none", got)
		}
	})
	t.Run("A10_status comes down", func(*testing.T) {
		c.setStatus(orders, map[string]any{"managed": map[string]any{"clusterStatus": "Running"}})
		c.eventually("the answer has it", func() error {
			got, _, _ := unstructured.NestedString(c.answer(orders).Status, "managed", "clusterStatus")
			return is(got, "Running")
		})
	})
	t.Run("A13_a delete travels and waits", func(t *testing.T) {
		c.finalizer(orders, true)
		c.push("Cancel", map[string]string{orders: ""})
		c.wantAnswer(orders, contract.Deleting)
		c.wantObserved()
		if s := c.answer(orders); s.Result != contract.Deleting || c.object(orders) == nil {
			t.Errorf("%+v, though the provider is not done", s)
		}
		c.finalizer(orders, false)
		if s := c.wantAnswer(orders, contract.Gone); s.UID != "u1" {
			t.Errorf("%+v", s)
		}
	})
}
