package appcluster

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
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
		{"of another kind", 0, schema.GroupVersionKind{Group: "networking.k8s.io", Version: "v1alpha1", Kind: "Ingress"}, errNotPublished},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				cluster := &Cluster{openAPI: func(bool) (openapi.Client, error) {
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

// kubectl's client keeps what it was told, also that there is no such group.
func TestASchemaThatIsPublishedLaterIsNotLookedForInACache(t *testing.T) {
	t.Parallel()
	const all = "/openapi/v3"
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == all && asked.Add(1) == 1:
			fmt.Fprint(w, `{"paths": {}}`)
		case r.URL.Path == all:
			fmt.Fprint(w, `{"paths": {"apis/example.net/v1": {"serverRelativeURL": "/openapi/v3/apis/example.net/v1?hash=x"}}}`)
		default:
			fmt.Fprint(w, `{"openapi": "3.0.0", "components": {"schemas": {"archive": {"type": "object",
				"x-kubernetes-group-version-kind": [{"group": "example.net", "version": "v1", "kind": "Archive"}]}}}}`)
		}
	}))
	defer server.Close()
	kubeconfig, cache := filepath.Join(t.TempDir(), "kubeconfig"), t.TempDir()
	if err := os.WriteFile(kubeconfig, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	flags := genericclioptions.NewConfigFlags(true)
	flags.KubeConfig, flags.CacheDir, flags.APIServer = &kubeconfig, &cache, &server.URL
	cluster, err := Open(flags)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cluster.published(t.Context(), schema.GroupVersionKind{Group: "example.net", Version: "v1", Kind: "Archive"}); err != nil {
		t.Errorf("asked %d times: %v", asked.Load(), err)
	}
}
