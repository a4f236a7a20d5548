// Package install puts into an app cluster what gitbind needs there: kinds,
// rights, the attribution policy and the konnector.
//
// The manifest is kustomize/konnector as it was when the plugin was built. The
// package gives the konnector no right on a bound API: binding does.
package install

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/version"
	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/usage"
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
	// RegistryGiven says that a person chose the registry.
	RegistryGiven bool
}

// name is that of the konnector's image.
const name = "gitbind-konnector"

// Continue keeps the registry from which the cluster's konnector is, as a mirror, unless a person
// chose another one, and tells so. It is an error if a konnector would run that is newer than the
// plugin, whose manifest would take from it what it needs, or if the one that runs has an image of
// somebody's own.
func (o Options) Continue(ctx context.Context, c *appcluster.Cluster, tell func(string)) (Options, error) {
	if o.NoDeployment {
		return o, nil
	}
	running, err := runningImage(ctx, c)
	if err != nil || running == "" {
		return o, err
	}
	next, err := o.after(running, version.String())
	if err == nil && next != o {
		tell(fmt.Sprintf("The konnector's image is %s, from where the one before it is: --image-registry takes it from elsewhere.", next.image()))
	}
	return next, err
}

// after are the options for a plugin of a version where a konnector runs an image.
func (o Options) after(running, plugin string) (Options, error) {
	image := cmp.Or(o.Image, running)
	folder, last := path.Split(image)
	base := last
	if end := strings.IndexAny(last, ":@"); end >= 0 {
		base = last[:end]
	}
	switch {
	case isNewer(image, plugin):
		return o, usage.Errorf("the konnector's image is %s, and this plugin is %s: take the plugin of that version. To go back to this one, name its image (--image)", image, plugin)
	case o.Image != "" || o.RegistryGiven:
		return o, nil
	case base != name:
		return o, usage.Errorf("the konnector of this cluster runs the image %s: name the one to run (--image), or where that of this version is (--image-registry)", image)
	}
	o.Registry = strings.TrimSuffix(folder, "/")
	return o, nil
}

// CheckPlugin refuses to go on where the cluster's konnector is newer than the plugin, which knows
// neither all that that one needs nor all that was installed for it.
func CheckPlugin(ctx context.Context, c *appcluster.Cluster) error {
	running, err := runningImage(ctx, c)
	if err != nil {
		return err
	}
	return checkPlugin(running, version.String())
}

func checkPlugin(running, plugin string) error {
	if isNewer(running, plugin) {
		return usage.Errorf("the konnector's image is %s, and this plugin is %s: take the plugin of that version", running, plugin)
	}
	return nil
}

// isNewer reports whether an image is of a newer version than a plugin, as far as its tag tells.
func isNewer(image, plugin string) bool {
	_, tag, _ := strings.Cut(path.Base(image), ":")
	there, errThere := utilversion.ParseGeneric(tag)
	here, errHere := utilversion.ParseGeneric(plugin)
	return errThere == nil && errHere == nil && here.LessThan(there)
}

// Apply installs, or brings up to date. tell gets one line for each object. It
// says so, and goes on, when the cluster cannot attribute changes to users.
func Apply(ctx context.Context, c *appcluster.Cluster, o Options, tell func(string)) error {
	objects, err := Served(c, o, tell)
	if err != nil {
		return err
	}
	var crds []string
	for _, u := range objects {
		line, err := c.Apply(ctx, u)
		if err != nil {
			return err
		}
		tell(line)
		if u.GetObjectKind().GroupVersionKind().Kind == "CustomResourceDefinition" {
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
	running, err := runningImage(ctx, c)
	if err != nil || running == "" {
		return err
	}
	tell("deployment/konnector in " + appcluster.SystemNamespace + " is there and stays: delete it before you run another konnector")
	return nil
}

// runningImage is the image of the cluster's konnector, "" for none.
func runningImage(ctx context.Context, c *appcluster.Cluster) (string, error) {
	running, err := c.Konnector(ctx)
	if err != nil {
		return "", fmt.Errorf("look for a konnector in the cluster: %w", err)
	}
	if running == nil {
		return "", nil
	}
	return appcluster.Image(running), nil
}

func waitForCRD(ctx context.Context, c *appcluster.Cluster, name string) error {
	gvk := apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition")
	return c.Wait(ctx, gvk, name, appcluster.IsTrue(string(apiextensionsv1.Established)), servedWithin, nil)
}

// Served are the objects that Apply applies to a cluster, in order. It tells of each that the cluster has not the
// kind of.
func Served(c *appcluster.Cluster, o Options, tell func(string)) ([]client.Object, error) {
	all, err := Objects(o)
	if err != nil {
		return nil, err
	}
	return appcluster.Served(c, all, func(u *unstructured.Unstructured) {
		tell(appcluster.Describe(u) + " left out: Kubernetes 1.36 has this kind, this cluster does not. Commits cannot name the users who changed a claim or a binding.")
	})
}

// Objects are all that Apply may apply, in order.
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
	return version.Image(o.Registry, name)
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
