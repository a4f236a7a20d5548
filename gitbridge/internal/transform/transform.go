// Package transform makes of a claim the object to apply on the control plane.
// It is pure. What an app cluster must not set does not pass, and what comes
// out is of the kind, namespace and name that went in: nothing else is applied.
package transform

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/crossplane"
	"gitbind.dev/gitbridge/internal/tenant"
)

// Input is what an object is made of.
type Input struct {
	Claim   *contract.Claim
	Cluster tenant.Cluster
	Binding string
	Shape   crossplane.Shape
	// Template is nil for a template that changes nothing.
	Template *Template
	// Keys are the labels and annotations that travel beside the usual.
	Keys contract.Keys
	// APIVersion and Kind are those of the bound API.
	APIVersion, Kind string
	// Blob is the claim file's hash, and Commit the commit of main.
	Blob, Commit string
}

// Result is what became of a claim.
type Result struct {
	Object *unstructured.Unstructured
	// Left are the fields of spec, sorted, that were left out because they are
	// not an app cluster's to set.
	Left []string
	// Stray are the labels and annotations, sorted, that do not travel.
	Stray []string
	// Effective are the fields of spec that the template changed, as they are
	// applied, with null for what it took away; nil for none.
	Effective map[string]any
	// Overruled are the paths, sorted, of those for which the claim says
	// something else.
	Overruled []string
}

// ErrAnother says that a template made of a claim another object than the
// claim's own, which is never applied.
var ErrAnother = errors.New("another object")

// Object makes the object to apply. A TemplateError is the operator's to mend.
func Object(in Input) (Result, error) {
	key := contract.Key{Binding: in.Binding, Namespace: in.Claim.Namespace, Name: in.Claim.Name}
	spec := runtime.DeepCopyJSON(in.Claim.Spec)
	if spec == nil {
		spec = map[string]any{}
	}
	out := Result{Left: in.Shape.Strip(spec), Stray: in.Keys.Stray(in.Claim)}
	in.Shape.Steer(spec)

	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetAPIVersion(in.APIVersion)
	u.SetKind(in.Kind)
	u.SetNamespace(in.Cluster.ClaimNamespace(key.Namespace))
	u.SetName(key.Name)
	travelling := in.Keys.Of(in.Claim)
	mark(u, in, key, travelling.Labels, travelling.Annotations)
	if in.Template != nil {
		object, err := in.Template.apply(u.Object, u.GetLabels())
		if err != nil {
			return Result{}, err
		}
		u = &unstructured.Unstructured{Object: object}
		if err := clean(u, in.Template.name); err != nil {
			return Result{}, err
		}
		mark(u, in, key, u.GetLabels(), u.GetAnnotations())
		effective, _, _ := unstructured.NestedMap(u.Object, "spec")
		out.Effective, out.Overruled = differences(spec, effective)
	}
	if spec, ok := u.Object["spec"].(map[string]any); ok {
		in.Shape.SelectComposition(spec)
	}
	if err := same(u, key, in); err != nil {
		return Result{}, err
	}
	out.Object = u
	return out, nil
}

// mark puts on an object what leads back to its claim, whatever else it says.
func mark(u *unstructured.Unstructured, in Input, key contract.Key, labels, annotations map[string]string) {
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, in.Cluster.Labels(key))
	u.SetLabels(labels)
	if annotations == nil {
		annotations = map[string]string{}
	}
	maps.Copy(annotations, in.Cluster.Annotations(key))
	annotations[tenant.AppliedAnnotation] = Applied(in.Blob, in.Shape, in.APIVersion, in.Template, in.Keys)
	annotations[tenant.CommitAnnotation] = in.Commit
	u.SetAnnotations(annotations)
}

// clean refuses what patches wrote where none may write, or in another shape
// than objects have. A patch that was compiled cannot, but by what it copies.
func clean(u *unstructured.Unstructured, template string) error {
	bad := func(what string) error { return &TemplateError{Template: template, Reason: what} }
	metadata, ok := u.Object["metadata"].(map[string]any)
	if !ok {
		return bad("takes the metadata away")
	}
	for _, name := range []string{"labels", "annotations"} {
		if _, _, err := unstructured.NestedStringMap(metadata, name); err != nil {
			return bad("sets metadata." + name + " to something that is not text")
		}
	}
	if _, _, err := unstructured.NestedMap(u.Object, "spec"); err != nil {
		return bad("sets spec to something that is no object")
	}
	return nil
}

// same refuses an object that is not the claim's own. It is the last gate before
// the API server for whatever a template makes.
func same(u *unstructured.Unstructured, key contract.Key, in Input) error {
	id, origin, ok := tenant.Origin(in.Binding, u.GetNamespace(), u.GetName(), u.GetLabels())
	if !ok || id != in.Cluster.ID || origin != key || u.GetKind() != in.Claim.Kind || u.GetAPIVersion() != in.APIVersion ||
		u.GroupVersionKind().Group != key.Group() {
		return fmt.Errorf("transform %s: became %s %s/%s: %w", key, u.GetKind(), u.GetNamespace(), u.GetName(), ErrAnother)
	}
	return nil
}

// revision is that of the rules in this package: a change of what they make of
// a claim needs a new one, so that it reaches what was applied before.
const revision = "3"

// Applied is a hash of all that goes into the object of a claim file: an object
// that carries it need not be applied.
func Applied(blob string, shape crossplane.Shape, apiVersion string, t *Template, keys contract.Keys) string {
	hash := sha256.New()
	for _, part := range []string{revision, blob, string(shape), apiVersion, t.Revision(), strings.Join(keys, " ")} {
		fmt.Fprintf(hash, "%d:%s", len(part), part)
	}
	return fmt.Sprintf("%x", hash.Sum(nil))[:32]
}
