// Package crossplaneapi tests the APIs beside it on a real Crossplane.
package crossplaneapi

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"gitbind.dev/test/env"
)

// kinds are the folders of all that are defined.
func kinds(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("*/definition.yaml")
	if err != nil || len(files) != 11 {
		t.Fatalf("there are the definitions %v, %v: want eleven", files, err)
	}
	for i, f := range files {
		files[i] = filepath.Dir(f)
	}
	return files
}

// TestKinds has one Crossplane for all of them, which has them as claims first, and as
// composites then: it cannot have both.
func TestKinds(t *testing.T) {
	t.Parallel()
	e := env.StartForTest(t, env.Options{Clusters: []string{env.Control}, Crossplane: true})
	c := &cluster{T: t, Client: newClient(t, e.Cluster(env.Control)), form: claims}
	c.apply("../crds/control-plane")
	c.apply("../../test/postgres/crds")
	c.apply("testdata/a9s")
	for _, form := range []form{claims, composites} {
		c.form = form
		c.install()
		// Otherwise the first foreground deletes may wait for half a minute.
		if err := e.Cluster(env.Control).Rediscover(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Run(form.name, func(t *testing.T) {
			t.Run("F10_every rule of each kind", func(t *testing.T) { testSchemas(c.with(t)) })
			t.Run("what users of Klutch apply is taken", func(t *testing.T) { testKlutchManifests(c.with(t)) })
			t.Run("what a8s makes of what users of Klutch apply", func(t *testing.T) { testA8s(c.with(t)) })
			t.Run("what a9s makes of each kind", func(t *testing.T) { testA9s(c.with(t)) })
		})
		c.uninstall()
	}
}

// form is how Crossplane has the kinds.
type form struct {
	name, dir, served string
	// prefix is what the names of definitions have before the kind's.
	prefix string
	object schema.GroupVersionKind
}

var (
	claims = form{
		name: "claims", served: "Offered", prefix: "x",
		object: schema.GroupVersionKind{Group: "kubernetes.crossplane.io", Version: "v1alpha2", Kind: "ObjectList"},
	}
	composites = form{
		name: "composites", dir: "namespaced", served: "Established",
		object: schema.GroupVersionKind{Group: "kubernetes.m.crossplane.io", Version: "v1alpha1", Kind: "ObjectList"},
	}
)

// install waits until all kinds are served.
func (c *cluster) install() {
	c.Helper()
	for _, dir := range kinds(c.T) {
		c.apply(filepath.Join(c.form.dir, dir))
	}
	for _, kind := range slices.Sorted(maps.Keys(accepted)) {
		definition := c.definition(kind)
		c.eventually(kind+" is served", func() string { return c.condition(definition, c.form.served) }, "True")
	}
}

// uninstall takes the definitions and compositions away, of which nothing can be changed
// that tells one form from the other.
func (c *cluster) uninstall() {
	c.Helper()
	for kind := range accepted {
		if err := c.Delete(c.Context(), c.definition(kind)); err != nil {
			c.Fatal(err)
		}
	}
	composition := &unstructured.Unstructured{}
	composition.SetGroupVersionKind(crossplaneKind("Composition"))
	if err := c.DeleteAllOf(c.Context(), composition); err != nil {
		c.Fatal(err)
	}
	for kind := range accepted {
		definition := c.definition(kind)
		c.eventually(kind+" is not defined any more", func() string { return c.existence(definition) }, "gone")
	}
}

// definition is the XRD of a kind.
func (c *cluster) definition(kind string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(crossplaneKind("CompositeResourceDefinition"))
	u.SetName(c.form.prefix + strings.ToLower(kind) + "s.anynines.com")
	return u
}

func crossplaneKind(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "apiextensions.crossplane.io", Version: "v1", Kind: kind}
}

type cluster struct {
	*testing.T
	client.Client
	form form
}

func (c *cluster) with(t *testing.T) *cluster { return &cluster{T: t, Client: c.Client, form: c.form} }

func newClient(t *testing.T, c *env.Cluster) client.Client {
	t.Helper()
	config := c.Config()
	// One tells of each definition of claims that they are of the past.
	config.WarningHandler = rest.NoWarnings{}
	cl, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return cl
}

// apply applies a kustomization, its definitions first.
func (c *cluster) apply(dir string) {
	c.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		c.Fatal(err)
	}
	for _, r := range resources.Resources() {
		data, err := r.MarshalJSON()
		if err != nil {
			c.Fatal(err)
		}
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON(data); err != nil {
			c.Fatal(err)
		}
		c.eventually("apply "+u.GetKind()+" "+u.GetName(), func() string { return problem(c.serverSide(u)) }, "")
	}
}

func (c *cluster) serverSide(u *unstructured.Unstructured, more ...client.ApplyOption) error {
	options := append([]client.ApplyOption{client.FieldOwner("test"), client.ForceOwnership}, more...)
	u = u.DeepCopy()
	if ref, ok, _ := unstructured.NestedMap(u.Object, "spec", "compositionRef"); ok && c.form == composites {
		// As the bridge does.
		if err := unstructured.SetNestedMap(u.Object, ref, "spec", "crossplane", "compositionRef"); err != nil {
			return err
		}
	}
	return c.Apply(c.Context(), client.ApplyConfigurationFromUnstructured(u), options...)
}

func (c *cluster) mustServerSide(u *unstructured.Unstructured) {
	c.Helper()
	if err := c.serverSide(u); err != nil {
		c.Fatal(err)
	}
}

func (c *cluster) get(u *unstructured.Unstructured) *unstructured.Unstructured {
	c.Helper()
	if err := c.Get(c.Context(), client.ObjectKeyFromObject(u), u); err != nil {
		c.Fatal(err)
	}
	return u
}

func (c *cluster) existence(u *unstructured.Unstructured) string {
	switch err := c.Get(c.Context(), client.ObjectKeyFromObject(u), u); {
	case apierrors.IsNotFound(err):
		return "gone"
	case err != nil:
		return err.Error()
	}
	return "there"
}

func (c *cluster) condition(u *unstructured.Unstructured, kind string) string {
	conditions, _, _ := unstructured.NestedSlice(c.get(u).Object, "status", "conditions")
	for _, condition := range conditions {
		if m, _ := condition.(map[string]any); m["type"] == kind {
			return m["status"].(string)
		}
	}
	return "missing"
}

func (c *cluster) eventually(what string, got func() string, want string) {
	c.Helper()
	if err := env.Await(3*time.Minute, func() error {
		if last := got(); last != want {
			return fmt.Errorf("got %q, want %q", last, want)
		}
		return nil
	}); err != nil {
		c.Fatalf("%s: %v", what, err)
	}
}

func problem(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
