package app_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/test/env"
)

// TestBridgeWithCrossplane runs a claim through its life on a real Crossplane.
func TestBridgeWithCrossplane(t *testing.T) {
	t.Parallel()
	e := env.StartForTest(t, env.Options{Clusters: []string{env.Control}, Crossplane: true})
	w := newWorldIn(t, e)
	w.must(e.Cluster(env.Control).Apply(t.Context(), "kustomize/processes/control-plane"))
	w.must(e.Cluster(env.Control).Apply(t.Context(), "test/crossplane-api"))
	postgresql := v1alpha1.ExportedAPI{Group: "anynines.com", Version: "v1", Resource: "postgresqlinstances"}
	w.applyFile("testdata/namespaced-xr.yaml")
	caches := v1alpha1.ExportedAPI{Group: "example.org", Version: "v1", Resource: "caches"}
	w.awaitOffer(postgresql)
	w.awaitOffer(caches)
	w.must(w.control().Rediscover(t.Context()))
	w.startBridge()
	tn := w.tenant(postgresql, caches)
	t.Run("a namespaced composite", func(t *testing.T) { testCrossplaneComposite(w.with(t), caches) })
	orders := path(postgresql, "team-a", "orders")

	began := time.Now()
	tn.push("Order", map[string]string{orders: manifest(orders, nano)}, object(orders, "u1"))
	tn.wantReady(orders)
	w.Logf("ordered, and its Ready on status, in %s", time.Since(began).Round(time.Millisecond))
	configMap := func() *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		u.SetAPIVersion("v1")
		u.SetKind("ConfigMap")
		u.SetNamespace(v1alpha1.TenantNamespace(tn.id) + "-team-a")
		u.SetName("postgresql-orders")
		return u
	}
	tn.wantData(configMap(), "disk", "3Gi")

	began = time.Now()
	tn.push("Grow", map[string]string{orders: manifest(orders, small)})
	tn.wantData(configMap(), "disk", "10Gi")
	w.Logf("a larger plan reached what is composed in %s", time.Since(began).Round(time.Millisecond))

	tn.push("Shrink", map[string]string{orders: manifest(orders, nano)})
	tn.wantAnswer(orders, contract.Invalid, "plan cannot become smaller", "orders.yaml:8")
	tn.push("Mend", map[string]string{orders: manifest(orders, small)})
	tn.wantAnswer(orders, contract.Applied)

	answer := configMap()
	answer.Object["data"] = map[string]any{"clusterStatus": "Running", "readyReplicas": "1"}
	w.must(w.apply(answer))
	tn.eventually("what the service says of itself is on status", func() error {
		managed, _, _ := unstructured.NestedMap(tn.answer(orders).Status, "managed")
		data, _ := json.Marshal(managed)
		return is(string(data), `{"clusterStatus":"Running","readyReplicas":1}`)
	})

	began = time.Now()
	tn.push("Cancel", map[string]string{orders: ""})
	tn.wantAnswer(orders, contract.Gone)
	w.Logf("gone after %s", time.Since(began).Round(time.Millisecond))
	if s := tn.answer(orders); s.UID != "u1" {
		w.Errorf("tombstone %+v", s)
	}
	for _, kind := range []string{"anynines.com/v1 XPostgresqlInstance", "kubernetes.crossplane.io/v1alpha2 Object"} {
		if left := w.names(kind); len(left) > 0 {
			w.Errorf("%s: %v is left", kind, left)
		}
	}
	// What Crossplane itself writes into claims is not corrected.
	if n := corrections(tn.id); n != 0 {
		w.Errorf("%v corrections of what Crossplane wrote", n)
	}
	log := w.host.run(tn.id, "log", "--format=%B", "status")
	if !strings.Contains(log, "status: Deleting team-a/orders (") {
		w.Errorf("status never said that it is being deleted:\n%s", log)
	}
}

func testCrossplaneComposite(w *world, caches v1alpha1.ExportedAPI) {
	t := w.tenant(caches)
	sessions := path(caches, "team-a", "sessions")
	t.push("Order", map[string]string{sessions: manifest(sessions, "  size: small\n  crossplane:\n    compositionRef: {name: caches}")})
	t.wantReady(sessions)
	t.wantAnswer(sessions, contract.Applied, "spec.crossplane")
	t.push("Grow", map[string]string{sessions: manifest(sessions, "  size: large")})
	t.eventually("what was composed says it", func() error {
		got, _, _ := unstructured.NestedString(t.answer(sessions).Status, "size")
		return is(got, "large")
	})
	t.push("Too much", map[string]string{sessions: manifest(sessions, "  size: huge")})
	t.wantAnswer(sessions, contract.Invalid, `Unsupported value: "huge"`, "sessions.yaml:7")
	t.push("Cancel", map[string]string{sessions: ""})
	t.wantAnswer(sessions, contract.Gone)
	u := &unstructured.UnstructuredList{}
	u.SetAPIVersion("v1")
	u.SetKind("ConfigMapList")
	w.must(w.admin.List(w.Context(), u, client.InNamespace(v1alpha1.TenantNamespace(t.id)+"-team-a"), client.HasLabels{"crossplane.io/composite"}))
	if len(u.Items) > 0 {
		w.Errorf("%d composed resources are left", len(u.Items))
	}
}
