package app_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/rest"
)

// TestTheCacheIsCommittedAsItIsOnlyWhereItCannotBeBehind counts how often the konnector
// reads an object at the API server.
func TestTheCacheIsCommittedAsItIsOnlyWhereItCannotBeBehind(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	counting := *w.cluster
	counting.konnector = rest.CopyConfig(w.konnector)
	var reads atomic.Int64
	counting.konnector.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodGet && strings.Contains(r.URL.Path, w.group) && strings.HasSuffix(r.URL.Path, "/postgresqlinstances/orders") {
				reads.Add(1)
			}
			return next.RoundTrip(r)
		})
	})
	w.cluster = &counting
	w.loop()
	w.apply("another", spec("small"))
	w.committed("another")
	w.apply("orders", spec("small"))
	w.committed("orders")
	w.setSpec("orders", "big", "plan")
	w.fileIs("orders", plan("big"))
	w.committed("orders")
	if n := reads.Load(); n != 0 {
		t.Errorf("read %d times, and the cache had it", n)
	}

	// What was written before this process began may be older than what another one pushed.
	w.stop()
	w.setSpec("orders", "small", "plan")
	w.start()
	w.fileIs("orders", plan("small"))
	w.committed("orders")
	if reads.Swap(0) == 0 {
		t.Error("not read, though another process may have pushed a newer one")
	}

	// Watches by the old definition leave out what only the new one has.
	w.publish(func(crd *apiextensionsv1.CustomResourceDefinition) {
		s := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
		s.Properties["region"] = apiextensionsv1.JSONSchemaProps{Type: "string"}
	})
	w.eventually("an edit with the new field", func() error {
		u := w.get("orders")
		u.Object["spec"].(map[string]any)["region"] = "eu"
		if err := w.alice.Update(t.Context(), u); err != nil {
			return err
		}
		return field("eu", "region")(u.Object["spec"].(map[string]any))
	})
	w.fileIs("orders", field("eu", "region"))
	w.committed("orders")
	reads.Store(0)
	w.setSpec("orders", "us", "region")
	w.fileIs("orders", field("us", "region"))
	if reads.Load() == 0 {
		t.Error("not read, though the definition has just changed")
	}
}
