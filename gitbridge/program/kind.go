package program

import (
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// HasKind reports whether the API server has the definition of a kind. A program that is newer
// than the definitions works without those that it can do without: a cache of a kind that is
// not defined is never filled.
func HasKind(d discovery.ServerResourcesInterface, kind schema.GroupVersionKind) (bool, error) {
	all, err := d.ServerResourcesForGroupVersion(kind.GroupVersion().String())
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("look for the definition of %s: %w", kind.Kind, err)
	}
	return slices.ContainsFunc(all.APIResources, func(r metav1.APIResource) bool { return r.Kind == kind.Kind }), nil
}
