// Package install puts into an app cluster what gitbind needs there: kinds,
// rights, the attribution policy and the konnector.
//
// The manifest is kustomize/konnector as it was when the plugin was built. The
// package gives the konnector no right on a bound API: binding does.
package install

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/version"
	"gitbind.dev/konnector/internal/cli/appcluster"
)

//go:embed konnector.yaml
var manifest []byte

// servedWithin is how long an API server takes to serve a new kind at most.
const servedWithin = time.Minute

// Options say what to leave out or to change.
type Options struct {
	// NoDeployment leaves out the konnector itself, which then runs elsewhere.
	NoDeployment bool
	// Image of the konnector; that of this version when empty.
	Image string
	// Registry has the images of gitbind, when Image is empty. Empty means that their
	// names have no registry: they are on the nodes, or in the nodes' default registry.
	Registry string
}

// Apply installs, or brings up to date. tell gets one line for each object. It
// says so, and goes on, when the cluster cannot attribute changes to users.
func Apply(ctx context.Context, c *appcluster.Cluster, o Options, tell func(string)) error {
	objects, err := Objects(o)
	if err != nil {
		return err
	}
	var crds []string
	for _, u := range objects {
		line, err := c.Apply(ctx, u)
		if meta.IsNoMatchError(err) && strings.HasPrefix(u.GetKind(), "MutatingAdmissionPolicy") {
			tell(appcluster.Describe(u) + " left out: Kubernetes 1.36 has this kind, this cluster does not. Commits cannot name the users who changed a claim or a binding.")
			continue
		}
		if err != nil {
			return err
		}
		tell(line)
		if u.GetKind() == "CustomResourceDefinition" {
			crds = append(crds, u.GetName())
		}
	}
	for _, name := range crds {
		if err := waitForCRD(ctx, c, name); err != nil {
			return err
		}
	}
	if o.NoDeployment {
		return warnOfTwo(ctx, c, tell)
	}
	return nil
}

// warnOfTwo tells of a konnector in the cluster, beside which another must not
// run. To end it is the person's decision: it may be the one that works.
func warnOfTwo(ctx context.Context, c *appcluster.Cluster, tell func(string)) error {
	var running appsv1.Deployment
	err := c.Get(ctx, client.ObjectKey{Namespace: appcluster.SystemNamespace, Name: "konnector"}, &running)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for a konnector in the cluster: %w", err)
	}
	tell("deployment/konnector in " + appcluster.SystemNamespace + " is there and stays: delete it before you run another konnector")
	return nil
}

func waitForCRD(ctx context.Context, c *appcluster.Cluster, name string) error {
	gvk := apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition")
	return c.Wait(ctx, gvk, name, appcluster.IsTrue(string(apiextensionsv1.Established)), servedWithin, nil)
}

// Objects are what Apply applies, in order.
func Objects(o Options) ([]*unstructured.Unstructured, error) {
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), 4096)
	var out []*unstructured.Unstructured
	for {
		u := &unstructured.Unstructured{}
		err := decoder.Decode(&u.Object)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the built-in manifest: %w", err)
		}
		if o.NoDeployment && (u.GetKind() == "Deployment" || u.GetKind() == "PodDisruptionBudget") {
			continue
		}
		if u.GetKind() == "Deployment" {
			if err := setImage(u, o.image()); err != nil {
				return nil, err
			}
		}
		out = append(out, u)
	}
}

// image is that of the konnector. The plugin and the image are of one version.
func (o Options) image() string {
	if o.Image != "" {
		return o.Image
	}
	return version.Image(o.Registry, "gitbind-konnector")
}

func setImage(deployment *unstructured.Unstructured, image string) error {
	path := []string{"spec", "template", "spec", "containers"}
	containers, _, err := unstructured.NestedSlice(deployment.Object, path...)
	if err != nil || len(containers) != 1 {
		return errors.New("read the built-in manifest: the konnector has not one container")
	}
	containers[0].(map[string]any)["image"] = image
	return unstructured.SetNestedSlice(deployment.Object, containers, path...)
}
