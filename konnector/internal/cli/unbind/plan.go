package unbind

import (
	"context"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	policies "gitbind.dev/policies/bound"
)

// plan is what unbinding one API would do.
type plan struct {
	// name is "<plural>.<group>".
	name string
	// binding is nil when only leftovers are there.
	binding *v1alpha1.APIServiceBinding
	// claims are "<namespace>/<name>", sorted.
	claims []string
	policy v1alpha1.DeletionPolicy
}

func (in Input) plans(ctx context.Context) ([]plan, error) {
	bindings, err := in.Cluster.Bindings(ctx)
	if err != nil {
		return nil, err
	}
	var out []plan
	for _, name := range in.Names {
		binding, err := find(bindings, name)
		if err != nil {
			return nil, err
		}
		p := plan{name: name, binding: binding, policy: in.Claims}
		if binding == nil {
			// A run before this one may have ended in between.
			if left, err := in.left(ctx, name); err != nil || !left {
				return nil, notBound(bindings, name, err)
			}
			out = append(out, p)
			continue
		}
		p.name = binding.Name
		if p.policy == "" {
			p.policy = binding.Spec.DeletionPolicy
		}
		if p.claims, err = in.claims(ctx, p.name); err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(out, func(o plan) bool { return o.name == p.name }) {
			out = append(out, p)
		}
	}
	return out, nil
}

func notBound(all []v1alpha1.APIServiceBinding, name string, err error) error {
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return fmt.Errorf("%q is not bound in this cluster, nor is any other API", name)
	}
	var names []string
	for _, b := range all {
		names = append(names, b.Name)
	}
	slices.Sort(names)
	return fmt.Errorf("%q is not bound in this cluster; bound are: %s", name, strings.Join(names, ", "))
}

// find is the binding of a name, of a plural or of an offer; nil for none.
func find(all []v1alpha1.APIServiceBinding, name string) (*v1alpha1.APIServiceBinding, error) {
	var found []*v1alpha1.APIServiceBinding
	for i, b := range all {
		if b.Name == name {
			return &all[i], nil
		}
		if restapi.MeansBinding(name, b.Name, b.Spec.Template) {
			found = append(found, &all[i])
		}
	}
	switch len(found) {
	case 0:
		return nil, nil
	case 1:
		return found[0], nil
	}
	return nil, fmt.Errorf("%q is not one API but several: %s and %s; give its whole name", name, found[0].Name, found[1].Name)
}

// claims are those of a bound API, in all namespaces.
func (in Input) claims(ctx context.Context, binding string) ([]string, error) {
	gvk, err := in.Cluster.KindOf(binding)
	if meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for the API %s: %w", binding, err)
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(gvk)
	if err := in.Cluster.List(ctx, list); err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("list the claims of %s: %w", binding, err)
	}
	var out []string
	for _, o := range list.Items {
		out = append(out, o.Namespace+"/"+o.Name)
	}
	slices.Sort(out)
	return out, nil
}

// made is what binding an API makes, but for the API itself. The role that the
// konnector has its rights from is the last.
func made(name string) []*unstructured.Unstructured {
	one := func(gv schema.GroupVersion, kind, name string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(gv.WithKind(kind))
		u.SetName(name)
		return u
	}
	role := "gitbind:api:" + name
	var out []*unstructured.Unstructured
	for _, policy := range policies.Names(name) {
		out = append(out, one(admissionv1.SchemeGroupVersion, "ValidatingAdmissionPolicyBinding", policy))
	}
	return append(out,
		one(admissionv1.SchemeGroupVersion, "MutatingAdmissionPolicyBinding", "gitbind-"+name),
		one(rbacv1.SchemeGroupVersion, "ClusterRole", role+":view"),
		one(rbacv1.SchemeGroupVersion, "ClusterRole", role+":edit"),
		one(rbacv1.SchemeGroupVersion, "ClusterRoleBinding", role),
		one(rbacv1.SchemeGroupVersion, "ClusterRole", role),
	)
}

// left tells whether something of an API is left that is not bound any more.
func (in Input) left(ctx context.Context, name string) (bool, error) {
	if contract.ValidateBinding(name) != nil {
		return false, nil
	}
	for _, o := range made(name) {
		err := in.Cluster.Get(ctx, client.ObjectKeyFromObject(o), o)
		if err == nil {
			return true, nil
		}
		if !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
			return false, fmt.Errorf("look for what is left of %s: %w", name, err)
		}
	}
	crd, err := in.api(ctx, name)
	return crd != nil, err
}

// api is the API's definition, if gitbind installed it; nil otherwise.
func (in Input) api(ctx context.Context, name string) (*apiextensionsv1.CustomResourceDefinition, error) {
	var crd apiextensionsv1.CustomResourceDefinition
	err := in.Cluster.Get(ctx, client.ObjectKey{Name: name}, &crd)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for the API %s: %w", name, err)
	}
	if _, ours := crd.Annotations[v1alpha1.ConnectionAnnotation]; !ours || !crd.DeletionTimestamp.IsZero() {
		return nil, nil
	}
	return &crd, nil
}

// sweepAPI removes an API that the konnector had no right to remove, if nothing
// of it is left: its objects would go with it.
func (in Input) sweepAPI(ctx context.Context, name string, say func(string)) error {
	crd, err := in.api(ctx, name)
	if crd == nil || err != nil {
		return err
	}
	claims, err := in.claims(ctx, name)
	if err != nil {
		return err
	}
	if len(claims) > 0 {
		say(fmt.Sprintf("customresourcedefinition/%s stays: it has %s", name, count(len(claims), "object")))
		return nil
	}
	err = in.Cluster.Delete(ctx, crd, client.Preconditions{UID: &crd.UID, ResourceVersion: &crd.ResourceVersion})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete the API %s: %w", name, err)
	}
	say("customresourcedefinition/" + name + " deleted")
	return nil
}
