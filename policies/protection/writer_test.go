package protection_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
)

func (c cluster) writtenInGit(t *testing.T, bound, other *apiextensionsv1.CustomResourceDefinition) {
	c.T = t
	konnector := c.as("system:serviceaccount:gitbind-system:konnector")
	orders, elsewhere := database(bound, "orders"), database(other, "orders")
	// The API server serves a new kind a moment after it has taken its definition.
	c.eventually(func() error { return c.Create(t.Context(), orders) })
	c.eventually(func() error { return c.Create(t.Context(), elsewhere) })
	try := func(with client.Client, patch string) error { return edit(t.Context(), with, orders, patch) }
	const bigger, labelled = `{"spec":{"plan":"big"}}`, `{"metadata":{"labels":{"a":"b"}}}`

	c.must(try(c, bigger))
	binding := &v1alpha1.APIServiceBinding{}
	c.must(c.Get(t.Context(), client.ObjectKey{Name: bound.Name}, binding))
	binding.Spec.Writer = v1alpha1.WriterGit
	c.must(c.Update(t.Context(), binding))

	words := []string{
		"claims of " + bound.Name + " are written in Git only",
		"bindings/" + bound.Name + "/claims/team-a/orders.yaml on main", "pull request", "spec.writer of APIServiceBinding " + bound.Name,
	}
	c.eventually(func() error { return says(try(c, bigger), words...) })
	c.must(says(try(c, `{"spec":null}`), words...))
	// H10: by way of its scale, too.
	scale := func(with client.Client, o *unstructured.Unstructured) error {
		return with.SubResource("scale").Patch(t.Context(), o.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":3}}`)), client.DryRunAll)
	}
	c.must(says(scale(c, orders), words...))
	c.must(says(c.Create(t.Context(), database(bound, "later"), client.DryRunAll), "claims/team-a/later.yaml on main"))

	for what, does := range map[string]func() error{
		"an edit by the konnector": func() error { return try(konnector, bigger) },
		"a claim that the konnector makes": func() error {
			return konnector.Create(t.Context(), database(bound, "later"), client.DryRunAll)
		},
		"a scale by the konnector":    func() error { return scale(konnector, orders) },
		"a scale of another API":      func() error { return scale(c, elsewhere) },
		"an edit of labels":           func() error { return try(c, labelled) },
		"the same once more":          func() error { return try(c, `{"spec":{"plan":"small"}}`) },
		"a status":                    func() error { return c.Status().Update(t.Context(), orders.DeepCopy(), client.DryRunAll) },
		"a delete":                    func() error { return c.Delete(t.Context(), orders, client.DryRunAll) },
		"an edit of another API":      func() error { return edit(t.Context(), c, elsewhere, bigger) },
		"a new object of another API": func() error { return c.Create(t.Context(), database(other, "later"), client.DryRunAll) },
	} {
		if err := does(); err != nil {
			t.Errorf("%s is refused: %v", what, err)
		}
	}

	binding.Spec.Writer = v1alpha1.WriterBoth
	c.must(c.Update(t.Context(), binding))
	c.eventually(func() error { return try(c, bigger) })
}

// as is another user with every right.
func (c cluster) as(user string) client.Client {
	c.Helper()
	config := rest.CopyConfig(c.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:masters"}}
	other, err := client.New(config, client.Options{})
	c.must(err)
	return other
}

// edit tries a change, without making it.
func edit(ctx context.Context, c client.Client, o *unstructured.Unstructured, patch string) error {
	return c.Patch(ctx, o.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(patch)), client.DryRunAll)
}

// says that the API server refused something for want of a right, with these words.
func says(err error, words ...string) error {
	if !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) {
		return fmt.Errorf("not refused: %w", err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			return fmt.Errorf("it does not say %q: %w", w, err)
		}
	}
	return nil
}

func database(crd *apiextensionsv1.CustomResourceDefinition, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"plan": "small"}}}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: crd.Spec.Group, Version: "v1", Kind: "Database"})
	u.SetNamespace("team-a")
	u.SetName(name)
	return u
}
