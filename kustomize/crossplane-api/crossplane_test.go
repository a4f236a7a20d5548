// Package crossplaneapi tests the APIs beside it on a real Crossplane.
package crossplaneapi

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
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

// TestKinds has one Crossplane for all of them.
func TestKinds(t *testing.T) {
	t.Parallel()
	e := env.StartForTest(t, env.Options{Clusters: []string{env.Control}, Crossplane: true})
	c := &cluster{T: t, Client: newClient(t, e.Cluster(env.Control))}
	c.apply("../crds/control-plane")
	c.apply("../../test/postgres/crds")
	c.apply("testdata/a9s")
	for _, dir := range kinds(t) {
		c.apply(dir)
	}
	for _, kind := range slices.Sorted(maps.Keys(accepted)) {
		definition := definition(kind)
		c.eventually(kind+" is offered", func() string { return c.condition(definition, "Offered") }, "True")
	}
	// Otherwise the first foreground deletes may wait for half a minute.
	if err := e.Cluster(env.Control).Rediscover(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Run("schemas", func(t *testing.T) { testSchemas(c.with(t)) })
	t.Run("what users of Klutch apply is taken", func(t *testing.T) { testKlutchManifests(c.with(t)) })
	t.Run("what a8s makes of what users of Klutch apply", func(t *testing.T) { testA8s(c.with(t)) })
	t.Run("what a9s makes of each kind", func(t *testing.T) { testA9s(c.with(t)) })
}

// definition is the XRD of a kind of claims.
func definition(kind string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.crossplane.io", Version: "v1", Kind: "CompositeResourceDefinition"})
	u.SetName("x" + strings.ToLower(kind) + "s.anynines.com")
	return u
}

type cluster struct {
	*testing.T
	client.Client
}

func (c *cluster) with(t *testing.T) *cluster { return &cluster{T: t, Client: c.Client} }

func newClient(t *testing.T, c *env.Cluster) client.Client {
	t.Helper()
	cl, err := client.New(c.Config(), client.Options{})
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
	return c.Apply(c.Context(), client.ApplyConfigurationFromUnstructured(u.DeepCopy()), options...)
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
	ctx, cancel := context.WithTimeout(c.Context(), 3*time.Minute)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		last := got()
		if last == want {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			c.Fatalf("%s: got %q, want %q", what, last, want)
		}
	}
}

func problem(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
