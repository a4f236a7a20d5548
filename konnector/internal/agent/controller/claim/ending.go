package claim

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/konnector/internal/agent/decision"
	"gitbind.dev/konnector/internal/choice"
)

// lookAtEnding finds what takes an object along with it.
func (r *reconciler) lookAtEnding(ctx context.Context, l *look, in input) (err error) {
	f := &l.facts
	if f.Ending, f.NamespaceMissing, err = ending(ctx, in, l.key, l.object); err == nil && f.Ending == "" {
		f.Ending, err = r.owners.ending(ctx, l.object, in.cached)
	}
	if f.Ending == decision.OwnerEnds {
		f.Owners = len(l.object.GetOwnerReferences())
	}
	if err == nil && f.Ending != "" && in.cached && knownEnding(l.object) == "" {
		// Once it is said it stays, so it must be so.
		return errIncomplete
	}
	return err
}

// ending finds what takes an object along with it, but for its owners, and whether its
// namespace is gone. What was found once stays, as the object's status says it: the
// namespace or the definition may be gone by now, or there again, and the object's
// delete is still not a person's.
func ending(ctx context.Context, in input, key contract.Key, o *unstructured.Unstructured) (with decision.Ending, gone bool, err error) {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	namespaceEnds, gone, err := endsWith(ctx, in, o, key.Namespace, namespace)
	if err != nil {
		return "", false, err
	}
	if with = knownEnding(o); with != "" {
		return with, gone, nil
	}
	if namespaceEnds {
		return decision.NamespaceEnds, gone, nil
	}
	apiEnds, _, err := endsWith(ctx, in, o, key.Binding, &apiextensionsv1.CustomResourceDefinition{})
	if err != nil || !apiEnds {
		return "", false, err
	}
	return decision.APIEnds, false, nil
}

// knownEnding is what the status says of why the object ends.
func knownEnding(o *unstructured.Unstructured) decision.Ending {
	if h := choice.HoldOf(o); h != nil {
		return decision.EndingOf(decision.Reason(h.Reason))
	}
	return ""
}

// endsWith reports whether an object is deleted together with its namespace or
// definition: with one that is being deleted, that is gone, or that is younger than the
// object and was not there yet when its delete began. The reader that is asked must know at
// least as much as the one that said that the object is being deleted.
func endsWith(ctx context.Context, in input, o *unstructured.Unstructured, name string, parent client.Object) (ends, gone bool, err error) {
	err = in.Get(ctx, client.ObjectKey{Name: name}, parent)
	switch {
	case apierrors.IsNotFound(err) && in.cached:
		// The cache may not know of it yet.
		return false, false, errIncomplete
	case apierrors.IsNotFound(err):
		return true, true, nil
	case err != nil:
		return false, false, fmt.Errorf("get %T %s: %w", parent, name, err)
	}
	born, created, deleted := parent.GetCreationTimestamp(), o.GetCreationTimestamp(), o.GetDeletionTimestamp()
	another := created.Before(&born) && !born.Before(deleted)
	return parent.GetDeletionTimestamp() != nil || another, false, nil
}
