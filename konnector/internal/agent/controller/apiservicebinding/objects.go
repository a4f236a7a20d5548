package apiservicebinding

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/admission"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
)

// pageSize is how many objects are read at once without their content, and maxWhole how many
// with it: each may have 1.5 MiB, of metadata, too.
const pageSize, maxWhole = 100, 20

// count finds out which claims there are, of a binding that is being deleted.
func (r *Reconciler) count(ctx context.Context, l *look) error {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	err := r.Live.Get(ctx, client.ObjectKey{Name: l.binding.Name}, crd)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("get CustomResourceDefinition %s: %w", l.binding.Name, err)
	case err == nil && crd.Annotations[v1alpha1.ConnectionAnnotation] == l.binding.Spec.Connection:
		l.crd = crd
		var allowed bool
		if l.objects, allowed, err = r.list(ctx, crd); err != nil {
			return err
		}
		l.facts.Unseen = !allowed && l.binding.Status.Kind != ""
	case err == nil && l.binding.Status.Kind != "":
		if l.replaced, err = r.mayHoldClaims(ctx, crd); err != nil {
			return err
		}
		l.facts.Unseen = l.replaced
	}
	here := map[contract.Key]bool{}
	if l.crd != nil && !isMarked(l.crd, l.binding) {
		for _, o := range l.objects {
			here[contract.Key{Binding: l.binding.Name, Namespace: o.Namespace, Name: o.Name}] = true
			l.facts.Objects++
			if slices.Contains(o.Finalizers, v1alpha1.Finalizer) {
				l.facts.Kept++
			}
		}
	}
	l.facts.Claims = l.facts.Objects
	if l.missing != nil {
		return nil
	}
	if l.facts.Kept > 0 && (l.facts.Answered || l.file == nil) && l.facts.Live.DeletionPolicy == contract.Orphan {
		if err := r.findUnsaved(ctx, l); err != nil {
			return err
		}
	}
	for e := range l.view.Main.List(contract.ClaimsPath(l.binding.Name)) {
		if key, err := contract.ParsePath(e.Path); err == nil && !here[key] {
			l.facts.Claims++
		}
	}
	return nil
}

// mayHoldClaims reports whether a definition has objects with our finalizer, or may have: its
// objects cannot be listed.
func (r *Reconciler) mayHoldClaims(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) (bool, error) {
	objects, allowed, err := r.list(ctx, crd)
	return !allowed || slices.ContainsFunc(objects, func(o metav1.PartialObjectMetadata) bool {
		return slices.Contains(o.Finalizers, v1alpha1.Finalizer)
	}), err
}

// ownDefinition is the CustomResourceDefinition of APIServiceBindings.
const ownDefinition = "apiservicebindings.gitbind.dev"

// deletedByPerson reports whether a person deleted this very binding. Who did, the API
// server does not say; but it was not this agent for a file that went, nor Kubernetes,
// which deletes what has owners, and all bindings when their definition is deleted.
func (r *Reconciler) deletedByPerson(ctx context.Context, l *look) (bool, error) {
	b := l.binding
	if l.file == nil || l.facts.BaseRemoved || len(b.OwnerReferences) > 0 {
		return false, nil
	}
	crd := &metav1.PartialObjectMetadata{}
	crd.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	err := r.Live.Get(ctx, client.ObjectKey{Name: ownDefinition}, crd)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("get CustomResourceDefinition %s: %w", ownDefinition, err)
	}
	// One that is younger was installed again: the delete was the older one's.
	return crd.DeletionTimestamp == nil && !crd.CreationTimestamp.After(b.DeletionTimestamp.Time), nil
}

// list reads the objects of an API from the API server, if that is allowed, and keeps what is
// needed to let them go. Where
// it never was, none was kept in step: then the binding's status has no kind.
func (r *Reconciler) list(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) (objects []metav1.PartialObjectMetadata, allowed bool, err error) {
	var all []metav1.PartialObjectMetadata
	page := &metav1.PartialObjectMetadataList{}
	page.SetGroupVersionKind(kindOf(crd))
	for {
		err := r.Live.List(ctx, page, client.Limit(pageSize), client.Continue(page.Continue))
		switch {
		case apierrors.IsNotFound(err):
			return nil, true, nil
		case apierrors.IsForbidden(err):
			return nil, false, nil
		case err != nil:
			return nil, false, fmt.Errorf("list %s: %w", crd.Name, err)
		}
		for _, o := range page.Items {
			all = append(all, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
				Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion,
				DeletionTimestamp: o.DeletionTimestamp, Finalizers: o.Finalizers,
			}})
		}
		if page.Continue == "" {
			return all, true, nil
		}
	}
}

func kindOf(crd *apiextensionsv1.CustomResourceDefinition) schema.GroupVersionKind {
	kind := schema.GroupVersionKind{Group: crd.Spec.Group, Kind: crd.Spec.Names.Kind}
	for _, v := range crd.Spec.Versions {
		if v.Storage {
			kind.Version = v.Name
		}
	}
	return kind
}

// failingFor is how long one round goes on with the next object where the API server fails:
// each failure may take as long as a webhook has time to answer.
const failingFor = time.Minute

// each does something with the objects, and keeps those with which it could not be done, with
// the API server's words, in l.refused. It reports whether some have changed meanwhile.
func (l *look) each(ctx context.Context, do func(*metav1.PartialObjectMetadata) error) (changed bool) {
	begun := time.Now()
	for i := range l.objects {
		o := &l.objects[i]
		o.SetGroupVersionKind(kindOf(l.crd))
		err := do(o)
		switch {
		case err == nil:
			continue
		case admission.Stale(err):
			changed = true
			continue
		}
		l.refused = append(l.refused, fmt.Sprintf("%s/%s: %s", o.Namespace, o.Name, told(ctx, err)))
		if ctx.Err() != nil || !isRefused(err) && time.Since(begun) > failingFor {
			break
		}
	}
	return changed
}

// deleteObjects deletes the claims as a person would.
func (r *Reconciler) deleteObjects(ctx context.Context, l *look) {
	l.each(ctx, func(o *metav1.PartialObjectMetadata) error {
		if o.DeletionTimestamp != nil {
			return nil
		}
		return r.Client.Delete(ctx, o, client.Preconditions{UID: new(o.UID), ResourceVersion: new(o.ResourceVersion)})
	})
}

// letGo takes off the objects what the konnector put on: they have no owner then.
func (r *Reconciler) letGo(ctx context.Context, l *look) (changed bool) {
	return l.each(ctx, func(o *metav1.PartialObjectMetadata) error {
		if !slices.Contains(o.Finalizers, v1alpha1.Finalizer) {
			return nil
		}
		rest := slices.DeleteFunc(slices.Clone(o.Finalizers), func(f string) bool { return f == v1alpha1.Finalizer })
		data, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"resourceVersion": o.ResourceVersion,
			"finalizers":      append([]string{}, rest...),
			"annotations":     map[string]any{v1alpha1.BaseAnnotation: nil, v1alpha1.ChangedByAnnotation: nil},
		}})
		if err != nil {
			return err
		}
		return r.Client.Patch(ctx, o, client.RawPatch(types.MergePatchType, data))
	})
}
