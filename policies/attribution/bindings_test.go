package attribution_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
)

const bound = "databases.example.com"

func binding() *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"connection": "default"}}}
	u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("APIServiceBinding"))
	u.SetName(bound)
	return u
}

// installBindings installs the kind, and its policy.
func (c cluster) installBindings(t *testing.T) {
	t.Helper()
	for _, path := range []string{"../../kustomize/crds/app/gitbind.dev_apiservicebindings.yaml", "bindings.yaml"} {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for manifest := range strings.SplitSeq(strings.TrimPrefix(string(data), "---\n"), "\n---\n") {
			c.create(t, decode(t, manifest))
		}
	}
	for _, manifest := range []string{konnectorRights, konnectorRightsBinding} {
		c.create(t, decode(t, strings.NewReplacer("name: databases", "name: bindings", "example.com", "gitbind.dev").Replace(manifest)))
	}
	c.namesWhoCreates(t, func() client.Object { return binding() })
}

func (c cluster) getBinding(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	o := binding()
	if err := c.root.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		t.Fatal(err)
	}
	return o
}

// testBindings: who asks for an API is named, and nothing else is touched.
func (c cluster) testBindings(t *testing.T) {
	c.installBindings(t)
	want := func(annotations map[string]string) {
		t.Helper()
		o := c.getBinding(t)
		if diff := cmp.Diff(annotations, o.GetAnnotations()); diff != "" {
			t.Errorf("annotations (-want +got):\n%s", diff)
		}
		if finalizers := o.GetFinalizers(); len(finalizers) > 0 {
			t.Errorf("it has %v", finalizers)
		}
	}
	update := func(u user, change func(*unstructured.Unstructured)) {
		t.Helper()
		o := c.getBinding(t)
		change(o)
		if err := u.Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	set := func(field, value string) func(*unstructured.Unstructured) {
		return func(u *unstructured.Unstructured) {
			if err := unstructured.SetNestedField(u.Object, value, "spec", field); err != nil {
				panic(err) // the spec is an object
			}
		}
	}
	forged := binding()
	forged.SetAnnotations(map[string]string{changedBy: "bob", "example.com/note": "x"})
	c.mallory.create(t, forged)
	want(map[string]string{changedBy: "mallory alice", "example.com/note": "x"})

	update(c.konnector, func(u *unstructured.Unstructured) { u.SetAnnotations(nil) })
	want(nil)
	// request.yaml says neither, and the konnector is nobody.
	update(c.bob, set("writer", "Git"))
	update(c.bob, annotate("example.com/note", "y"))
	update(c.bob, annotate(changedBy, "alice"))
	update(c.konnector, set("template", "small"))
	want(map[string]string{"example.com/note": "y"})

	update(c.alice, set("template", "big"))
	update(c.bob, set("deletionPolicy", "Orphan"))
	update(c.alice, set("deletionPolicy", "Delete"))
	want(map[string]string{"example.com/note": "y", changedBy: "alice\nbob"})
	update(c.bob, func(u *unstructured.Unstructured) { u.SetAnnotations(nil) })
	update(c.bob, annotate(changedBy, "carol"))
	want(map[string]string{changedBy: "alice\nbob"})

	const manifest = "apiVersion: gitbind.dev/v1alpha1\nkind: APIServiceBinding\nmetadata: {name: " + bound + "}\nspec: {connection: default, deletionPolicy: Delete}\n"
	update(c.konnector, func(u *unstructured.Unstructured) { u.SetAnnotations(nil) })
	c.kubectlAs(t, c.bob, manifest, "replace", "-f", "-")
	want(map[string]string{changedBy: "bob"})
}
