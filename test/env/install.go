package env

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sync/errgroup"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// crdsAtOnce keeps a few CRDs under way: each waits for the API server to
// accept it, not for a processor.
const crdsAtOnce = 8

func installScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	// Both only add types that are known to fit together.
	_ = clientgoscheme.AddToScheme(s)
	_ = apiextensionsv1.AddToScheme(s)
	return s
}

// createCRDs creates the CRDs of a directory and returns when discovery shows
// all of them. (A controller that is started earlier may not find its kinds,
// and looks again only after ten seconds.)
func (x *Crossplane) createCRDs(ctx context.Context, dir string) error {
	paths, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return err
	}
	if len(paths) == 0 {
		return fmt.Errorf("install CRDs: none in %s", dir)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(crdsAtOnce)
	for _, path := range paths {
		group.Go(func() error {
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			crd := &apiextensionsv1.CustomResourceDefinition{}
			if err := yaml.Unmarshal(raw, crd); err != nil {
				return fmt.Errorf("read %s: %w", path, err)
			}
			if c := crd.Spec.Conversion; c != nil && c.Webhook != nil {
				// Required, and set when the webhook has a port.
				c.Webhook.ClientConfig = &apiextensionsv1.WebhookClientConfig{URL: new("https://127.0.0.1:1/convert")}
			}
			if err := x.create(ctx, crd); err != nil {
				return err
			}
			return x.waitForDiscovery(ctx, crd)
		})
	}
	return group.Wait()
}

func (x *Crossplane) waitForDiscovery(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) error {
	for _, v := range crd.Spec.Versions {
		if !v.Served {
			continue
		}
		gv := crd.Spec.Group + "/" + v.Name
		if err := until(ctx, "discovery of "+crd.Name+" "+v.Name, func(context.Context) (bool, error) {
			list, err := x.discovery.ServerResourcesForGroupVersion(gv)
			if err != nil {
				return false, err
			}
			return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Kind == crd.Spec.Names.Kind }), nil
		}); err != nil {
			return err
		}
	}
	return nil
}

func (x *Crossplane) create(ctx context.Context, objects ...client.Object) error {
	for _, o := range objects {
		if err := x.client.Create(ctx, o); err != nil {
			return fmt.Errorf("create %T %s: %w", o, o.GetName(), err)
		}
	}
	return nil
}

func object(gvk schema.GroupVersionKind, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(gvk)
	u.SetName(name)
	return u
}

func mergePatch(patch []byte) client.Patch { return client.RawPatch(types.MergePatchType, patch) }

// listens tells that somebody accepts connections at an address.
func listens(address string) func(context.Context) error {
	return func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return conn.Close()
	}
}
