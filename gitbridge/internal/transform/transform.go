// Package transform makes of a claim the object to apply on the control plane.
// It is pure. What an app cluster must not set does not pass, and what comes
// out is of the kind, namespace and name that went in: nothing else is applied.
package transform

import (
	"crypto/sha256"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"gitbind.dev/gitbridge/claim"
	"gitbind.dev/gitbridge/internal/crossplane"
	"gitbind.dev/gitbridge/internal/tenant"
)

// Input is what an object is made of.
type Input struct {
	Claim   *claim.Claim
	Cluster tenant.Cluster
	Binding string
	Shape   crossplane.Shape
	// APIVersion and Kind are those of the bound API.
	APIVersion, Kind string
	// Blob is the claim file's hash, and Commit the commit of main.
	Blob, Commit string
}

// Object is the object to apply, and the fields of spec, sorted, that were left
// out because they are not an app cluster's to set.
func Object(in Input) (object *unstructured.Unstructured, left []string, err error) {
	key := claim.Key{Binding: in.Binding, Namespace: in.Claim.Namespace, Name: in.Claim.Name}
	spec := runtime.DeepCopyJSON(in.Claim.Spec)
	if spec == nil {
		spec = map[string]any{}
	}
	left = in.Shape.Strip(spec)
	in.Shape.Steer(spec)

	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetAPIVersion(in.APIVersion)
	u.SetKind(in.Kind)
	u.SetNamespace(in.Cluster.ClaimNamespace(key.Namespace))
	u.SetName(key.Name)
	labels := travelling(in.Claim.Labels)
	maps.Copy(labels, in.Cluster.Labels(key))
	u.SetLabels(labels)
	annotations := travelling(in.Claim.Annotations)
	maps.Copy(annotations, in.Cluster.Annotations(key))
	annotations[tenant.AppliedAnnotation] = Applied(in.Blob, in.Shape, in.APIVersion)
	annotations[tenant.CommitAnnotation] = in.Commit
	u.SetAnnotations(annotations)

	if err := same(u, key, in); err != nil {
		return nil, nil, err
	}
	return u, left, nil
}

// same refuses an object that is not the claim's own. Nothing above makes one;
// it is the last gate before the API server for whatever comes to transform.
func same(u *unstructured.Unstructured, key claim.Key, in Input) error {
	id, origin, ok := tenant.Origin(in.Binding, u.GetNamespace(), u.GetName(), u.GetLabels())
	if !ok || id != in.Cluster.ID || origin != key || u.GetKind() != in.Claim.Kind || u.GroupVersionKind().Group != key.Group() {
		return fmt.Errorf("transform %s: became %s %s/%s, which is another object", key, u.GetKind(), u.GetNamespace(), u.GetName())
	}
	return nil
}

// revision is that of the rules in this package: a change of what they make of
// a claim needs a new one, so that it reaches what was applied before.
const revision = "1"

// Applied is a hash of all that goes into the object of a claim file: an object
// that carries it need not be applied. Of a template nothing goes in so far.
func Applied(blob string, shape crossplane.Shape, apiVersion string) string {
	hash := sha256.New()
	for _, part := range []string{revision, blob, string(shape), apiVersion} {
		fmt.Fprintf(hash, "%d:%s", len(part), part)
	}
	return fmt.Sprintf("%x", hash.Sum(nil))[:32]
}

func travelling(m map[string]string) map[string]string {
	out := map[string]string{}
	for key, value := range m {
		if claim.Travels(key) {
			out[key] = value
		}
	}
	return out
}
