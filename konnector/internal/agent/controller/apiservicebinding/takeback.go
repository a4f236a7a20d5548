package apiservicebinding

import (
	"context"
	"fmt"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/policies/attribution"
	"gitbind.dev/policies/protection"
)

// unboundAnnotation on a CRD names, by its UID, the binding that the CRD goes
// for: from then on no object of it counts.
const unboundAnnotation = "gitbind.dev/unbound"

func isMarked(crd *apiextensionsv1.CustomResourceDefinition, b *v1alpha1.APIServiceBinding) bool {
	return crd.Annotations[unboundAnnotation] == string(b.UID)
}

// unmark takes back the marks of an unbind that was not carried through: the API
// is protected again. What a person allowed stays.
func unmark(crd *apiextensionsv1.CustomResourceDefinition) {
	if _, marked := crd.Annotations[unboundAnnotation]; marked {
		delete(crd.Annotations, unboundAnnotation)
		delete(crd.Annotations, protection.AllowAnnotation)
	}
}

// takeBack removes what was made in this cluster for the binding, and lets go of
// it. What it may not remove it names, and goes on.
func (r *Reconciler) takeBack(ctx context.Context, l *look) (ctrl.Result, error) {
	var left []string
	if l.crd != nil {
		going, err := r.removeDefinition(ctx, l)
		if err != nil {
			return ctrl.Result{}, err
		}
		if going {
			wait, holds := goingWait, l.refusals()+l.keptByOthers()
			if holds != "" {
				wait = untilCount(time.Since(l.binding.DeletionTimestamp.Time))
			}
			return ctrl.Result{RequeueAfter: wait}, r.reportTakingBack(ctx, l, "The API is being taken back from this cluster."+holds)
		}
		left = append(left, "CustomResourceDefinition "+l.crd.Name)
	}
	if err := r.removePolicies(ctx, l.binding); err != nil {
		return ctrl.Result{}, err
	}
	more, err := r.removeRights(ctx, l.binding)
	if err != nil {
		return ctrl.Result{}, err
	}
	if left = append(left, more...); len(left) > 0 {
		words := fmt.Sprintf("The konnector may not remove what was made for this API: %s. Remove it if it is there.", strings.Join(left, ", "))
		if err := r.reportTakingBack(ctx, l, words); err != nil {
			return ctrl.Result{}, err
		}
		r.event(l.binding, corev1.EventTypeWarning, "NotRemoved", "%s", words)
	}
	r.stop(l.binding.Name)
	return ctrl.Result{}, r.letGoOf(ctx, l)
}

// removeDefinition deletes the CRD, and with it what objects are left; false when
// that is not allowed.
func (r *Reconciler) removeDefinition(ctx context.Context, l *look) (going bool, err error) {
	crd := l.crd
	if !isMarked(crd, l.binding) {
		metav1.SetMetaDataAnnotation(&crd.ObjectMeta, unboundAnnotation, string(l.binding.UID))
		metav1.SetMetaDataAnnotation(&crd.ObjectMeta, protection.AllowAnnotation, "true")
		if err := r.Client.Update(ctx, crd); isRefused(err) {
			return false, nil
		} else if err != nil {
			return false, fmt.Errorf("update CustomResourceDefinition %s: %w", crd.Name, err)
		}
	}
	if crd.DeletionTimestamp == nil {
		err := r.Client.Delete(ctx, crd, client.Preconditions{UID: new(crd.UID)})
		switch {
		case isRefused(err):
			return false, nil
		case client.IgnoreNotFound(err) != nil:
			return false, fmt.Errorf("delete CustomResourceDefinition %s: %w", crd.Name, err)
		}
	}
	// An object that came in between was never kept in step.
	r.letGo(ctx, l)
	return true, nil
}

// removeRights takes back the rights on the API, and names what it may not. Its
// own go last, and not by itself: with the first of them it could not remove the
// second. They are given to the binding, and go after it.
func (r *Reconciler) removeRights(ctx context.Context, b *v1alpha1.APIServiceBinding) (left []string, err error) {
	plural, _, _ := strings.Cut(b.Name, ".")
	name := "gitbind:api:" + b.Name
	called := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
	note := func(what string, o client.Object, err error) error {
		if isRefused(err) {
			left = append(left, what+" "+o.GetName())
			return nil
		}
		// API servers before 1.36 have no kind MutatingAdmissionPolicyBinding.
		if err := client.IgnoreNotFound(err); err != nil && !meta.IsNoMatchError(err) {
			return fmt.Errorf("remove %s %s: %w", what, o.GetName(), err)
		}
		return nil
	}
	for _, o := range []struct {
		what   string
		object client.Object
	}{
		{"MutatingAdmissionPolicyBinding", &admissionv1.MutatingAdmissionPolicyBinding{
			ObjectMeta: called(attribution.ForBinding(contract.BindingGroup(b.Name), plural).Name)}},
		{"ClusterRole", &rbacv1.ClusterRole{ObjectMeta: called(name + ":view")}},
		{"ClusterRole", &rbacv1.ClusterRole{ObjectMeta: called(name + ":edit")}},
	} {
		if err := note(o.what, o.object, r.Client.Delete(ctx, o.object)); err != nil {
			return nil, err
		}
	}
	for _, o := range []struct {
		what   string
		object client.Object
	}{
		{"ClusterRoleBinding", &rbacv1.ClusterRoleBinding{ObjectMeta: called(name)}},
		{"ClusterRole", &rbacv1.ClusterRole{ObjectMeta: called(name)}},
	} {
		if err := note(o.what, o.object, r.give(ctx, o.object, b)); err != nil {
			return nil, err
		}
	}
	return left, nil
}

// give makes an object go when the binding is gone.
func (r *Reconciler) give(ctx context.Context, o client.Object, b *v1alpha1.APIServiceBinding) error {
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
		return err
	}
	o.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "APIServiceBinding", Name: b.Name, UID: b.UID,
	}})
	return r.Client.Update(ctx, o)
}

// keepRights takes hold again of the rights on an API that an earlier binding was
// given: the garbage collector would take them from under this one, maybe long
// after the person who bound it found them there.
func (r *Reconciler) keepRights(ctx context.Context, binding string) error {
	meta := metav1.ObjectMeta{Name: "gitbind:api:" + binding}
	for _, o := range []client.Object{&rbacv1.ClusterRoleBinding{ObjectMeta: meta}, &rbacv1.ClusterRole{ObjectMeta: meta}} {
		err := r.Live.Get(ctx, client.ObjectKeyFromObject(o), o)
		if err == nil {
			owners := o.GetOwnerReferences()
			others := v1alpha1.OwnersBesideBindings(owners)
			if len(others) == len(owners) {
				continue
			}
			o.SetOwnerReferences(others)
			// With its resourceVersion and UID: what is made again meanwhile is not this.
			err = r.Client.Update(ctx, o)
		}
		// Rights that are missing are told when they are needed.
		if err != nil && !apierrors.IsNotFound(err) && !isRefused(err) {
			return fmt.Errorf("keep %T %s: %w", o, o.GetName(), err)
		}
	}
	return nil
}
