package appcluster

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/openapi"
	"k8s.io/client-go/openapi/openapitest"
)

// An API server publishes a schema a while after it serves the kind.
func TestASchemaIsWaitedForThatIsNotPublishedYet(t *testing.T) {
	deployment := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	for _, c := range []struct {
		name  string
		after time.Duration
		kind  schema.GroupVersionKind
		want  error
	}{
		{"at once", 0, deployment, nil},
		{"later", publishedWithin / 2, deployment, nil},
		{"too late", 2 * publishedWithin, deployment, errNotPublished},
		{"of another kind", 0, deployment.GroupVersion().WithKind("Deploy"), errNotPublished},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				cluster := &Cluster{openAPI: func() (openapi.Client, error) {
					if time.Since(begin) < c.after {
						return openapitest.NewFakeClient(), nil
					}
					return openapitest.NewEmbeddedFileClient(), nil
				}}
				got, err := cluster.published(t.Context(), c.kind)
				if !errors.Is(err, c.want) || (got == nil) != (c.want != nil) {
					t.Errorf("%v, %v", got, err)
				}
			})
		})
	}
}
