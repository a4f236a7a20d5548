package claim

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/konnector/internal/agent/decision"
)

// ending finds what takes an object along with it. The one who is asked must know
// at least as much as whoever said that the object is being deleted.
func ending(ctx context.Context, from client.Reader, key contract.Key) (decision.Ending, error) {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := from.Get(ctx, types.NamespacedName{Name: key.Namespace}, namespace); client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("get namespace %s: %w", key.Namespace, err)
	}
	if namespace.DeletionTimestamp != nil {
		return decision.NamespaceEnds, nil
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := from.Get(ctx, types.NamespacedName{Name: key.Binding}, crd); client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("get CustomResourceDefinition %s: %w", key.Binding, err)
	}
	if crd.DeletionTimestamp != nil {
		return decision.APIEnds, nil
	}
	return "", nil
}

// endingOfOwners reports whether an object may be deleted only because none of its
// owners is left: the garbage collector deletes it then, and spares it as long as one
// stays. Owners are asked for at the API server, as they are of any kind. One that the
// konnector may not read, or whose API it does not find, is not known to stay.
func endingOfOwners(ctx context.Context, live client.Reader, o *unstructured.Unstructured) (decision.Ending, error) {
	owners := o.GetOwnerReferences()
	if len(owners) == 0 {
		return "", nil
	}
	for _, ref := range owners {
		gv, err := schema.ParseGroupVersion(ref.APIVersion)
		if err != nil {
			continue
		}
		owner := &metav1.PartialObjectMetadata{}
		owner.SetGroupVersionKind(gv.WithKind(ref.Kind))
		err = live.Get(ctx, types.NamespacedName{Namespace: o.GetNamespace(), Name: ref.Name}, owner)
		switch {
		case apierrors.IsNotFound(err), apierrors.IsForbidden(err), meta.IsNoMatchError(err):
		case err != nil:
			return "", fmt.Errorf("get owner %s %s of %s/%s: %w", ref.Kind, ref.Name, o.GetNamespace(), o.GetName(), err)
		case owner.UID == ref.UID && owner.DeletionTimestamp == nil:
			return "", nil
		}
	}
	return decision.OwnerEnds, nil
}
