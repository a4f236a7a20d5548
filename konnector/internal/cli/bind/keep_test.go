package bind

import (
	"bytes"
	"context"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/command"
	"gitbind.dev/konnector/internal/cli/terminal"
	"gitbind.dev/test/fakeapi"
)

// An API that is bound again soon after it was unbound: its rights are there, and
// the garbage collector has yet to take them.
func TestWhatIsBoundAgainDoesNotGoWithWhatWasBefore(t *testing.T) {
	owner := func(kind string) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: kind, Name: "x", UID: "u0"}
	}
	unknown := true // to the API server, at first
	for what, taken := range map[string]bool{"it is there": false, "it is taken meanwhile": true} {
		before := konnectorRole(postgresql)
		before.OwnerReferences = []metav1.OwnerReference{owner("APIServiceBinding"), owner("Another")}
		c := fakeapi.New(fakeapi.Builder().WithObjects(before), interceptor.Funcs{
			Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
				if unknown {
					unknown = false
					return apierrors.NewServiceUnavailable("the kind is not found yet")
				}
				return c.Apply(ctx, o, opts...)
			},
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				if taken && p.Type() == "application/merge-patch+json" {
					taken = false
					if err := c.Delete(ctx, before); err != nil {
						t.Fatal(err)
					}
					return apierrors.NewNotFound(schema.GroupResource{}, o.GetName())
				}
				return c.Patch(ctx, o, p, opts...)
			},
		})
		if _, err := applyForGood(t.Context(), &appcluster.Cluster{WithWatch: c}, konnectorRole(postgresql)); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		got := konnectorRole(postgresql)
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(got), got); err != nil || len(got.Rules) == 0 {
			t.Fatalf("%s: %v, %v", what, got.Rules, err)
		}
		for _, o := range got.OwnerReferences {
			if o.Kind == "APIServiceBinding" {
				t.Errorf("%s: it goes with %v", what, o)
			}
		}
		if what == "it is there" && len(got.OwnerReferences) != 1 {
			t.Errorf("others own it, too: %v", got.OwnerReferences)
		}
	}
}

// An unbinding does not end without the konnector's rights, which it takes back at its end.
func TestWhatIsBeingUnboundIsNotBoundAndHasItsRights(t *testing.T) {
	for _, dryRun := range []bool{false, true} {
		going := &v1alpha1.APIServiceBinding{
			ObjectMeta: metav1.ObjectMeta{
				Name: postgresql.BindingName(), UID: "b1", Finalizers: []string{v1alpha1.BindingFinalizer}, DeletionTimestamp: new(metav1.Now()),
			},
			Spec: v1alpha1.APIServiceBindingSpec{Connection: "default"},
		}
		crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{
			Name: postgresql.BindingName(), Annotations: map[string]string{v1alpha1.ConnectionAnnotation: "default"},
		}}
		// The garbage collector would take what it owns before it is gone, if it is deleted in the foreground.
		given := konnectorRole(postgresql)
		given.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "APIServiceBinding", Name: going.Name, UID: going.UID}}
		c := fakeapi.New(fakeapi.Builder().WithObjects(going, crd, given))
		var out bytes.Buffer
		in := Input{DryRun: dryRun, Call: command.Call{Terminal: &terminal.Terminal{Out: &out}}}
		in.Cluster = &appcluster.Cluster{WithWatch: c}
		being, err := checkFree(t.Context(), in.Cluster, postgresql, "default")
		if err != nil || !being {
			t.Fatalf("%v, %v", being, err)
		}
		err = in.refuseUnbinding(t.Context(), postgresql)
		if err == nil || !strings.Contains(err.Error(), "is being unbound") {
			t.Errorf("got %v", err)
		}
		role, roleBinding := konnectorRole(postgresql), konnectorRoleBinding(postgresql)
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(role), role); err != nil || len(role.OwnerReferences) != 1 {
			t.Errorf("what goes with it is owned by %v: %v", role.OwnerReferences, err)
		}
		switch err := c.Get(t.Context(), client.ObjectKeyFromObject(roleBinding), roleBinding); {
		case dryRun && !apierrors.IsNotFound(err):
			t.Errorf("a dry run gives rights: %v", err)
		case !dryRun && (err != nil || len(roleBinding.OwnerReferences) > 0):
			t.Errorf("what is given is owned by %v: %v", roleBinding.OwnerReferences, err)
		}
	}
}
