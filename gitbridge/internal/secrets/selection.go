// Package secrets finds the Secrets that travel with claims to their app cluster, and
// makes the files of them. It reads as the tenant's ServiceAccount, so that RBAC of
// the control plane says what may be read; it changes nothing there, and keeps no value
// longer than it takes to encrypt it.
package secrets

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/internal/crossplane"
	"gitbind.dev/gitbridge/selection"
)

var resource = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}

// selectionsOf says which Secrets belong to a claim's object.
func selectionsOf(shape crossplane.Shape, claims []v1alpha1.PermissionClaim, object *unstructured.Unstructured) []selection.Selection {
	var out []selection.Selection
	if name, _, _ := unstructured.NestedString(object.Object, "spec", "writeConnectionSecretToRef", "name"); name != "" && shape == crossplane.Claim {
		out = append(out, selection.Selection{Name: name, Owner: object.GetUID()})
	}
	return append(out, selection.Of(claims, v1alpha1.ResourceSecrets, object.GetName(), object.Object)...)
}

func noRight(namespace string) string {
	return fmt.Sprintf("the tenant may not read Secrets in %s: it gets that by the ClusterRole %s, if the control plane has it", namespace, v1alpha1.ClaimSecrets)
}
