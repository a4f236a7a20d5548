package app_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/rest"

	"gitbind.dev/konnector/internal/base"
)

// TestNothingIsAgreedOnByAnOldSchema edits a field that the API server knows before the
// konnector's claim controller does.
func TestNothingIsAgreedOnByAnOldSchema(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	slow := *w.cluster
	slow.konnector = rest.CopyConfig(w.konnector)
	// Held has room for one: the question may come before the test waits for it.
	installed, held, release := make(chan struct{}), make(chan struct{}, 1), make(chan struct{})
	var once sync.Once
	slow.konnector.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if strings.Contains(r.URL.Path, "accessreviews") {
				select {
				case <-installed:
					select {
					case held <- struct{}{}:
					default:
					}
					select {
					case <-release:
					case <-r.Context().Done():
						return nil, r.Context().Err()
					}
				default:
				}
			}
			answer, err := next.RoundTrip(r)
			if err == nil && answer.StatusCode == http.StatusOK && r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/customresourcedefinitions/"+w.binding) {
				// It is put again where another version was in the way.
				once.Do(func() { close(installed) })
			}
			return answer, err
		})
	})
	w.cluster = &slow
	w.loop()
	w.apply("orders", spec("small"))
	w.committed("orders")
	w.publish(func(crd *apiextensionsv1.CustomResourceDefinition) {
		s := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
		s.Properties["region"] = apiextensionsv1.JSONSchemaProps{Type: "string"}
	})
	<-held
	w.eventually("an edit with the new field", func() error {
		u := w.get("orders")
		u.Object["spec"].(map[string]any)["region"] = "eu"
		if err := w.alice.Update(t.Context(), u); err != nil {
			return err
		}
		return field("eu", "region")(u.Object["spec"].(map[string]any))
	})
	w.never("the edit is taken for agreed", func() bool {
		u := w.get("orders")
		b := base.Read(u)
		return b != nil && b.Generation == u.GetGeneration()
	})
	close(release)
	w.fileIs("orders", field("eu", "region"))
}
