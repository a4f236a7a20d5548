package app_test

import (
	"net/http"
	"strings"
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
	installed, held, release := make(chan struct{}), make(chan struct{}), make(chan struct{})
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
			if r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/customresourcedefinitions/"+w.binding) {
				close(installed)
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
