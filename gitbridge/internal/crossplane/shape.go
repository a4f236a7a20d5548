// Package crossplane knows which kinds Crossplane serves, and which of their
// fields steer Crossplane itself and are never an app cluster's to set. It is
// pure: it reads definitions and objects, and talks to nobody.
package crossplane

import (
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Shape is which kind of API a CRD serves.
type Shape string

const (
	// Claim is the v1-style claim of a composite.
	Claim Shape = "claim"
	// Composite is a composite resource, namespaced in Crossplane 2.
	Composite Shape = "composite"
	// Plain is any API that is not Crossplane's.
	Plain Shape = "plain"
)

// ShapeOf tells by the categories that Crossplane gives the CRDs it makes.
func ShapeOf(crd *apiextensionsv1.CustomResourceDefinition) Shape {
	switch {
	case slices.Contains(crd.Spec.Names.Categories, string(Claim)):
		return Claim
	case slices.Contains(crd.Spec.Names.Categories, string(Composite)):
		return Composite
	default:
		return Plain
	}
}

// Machinery are the fields of spec with which Crossplane is steered. compositionRef
// is none of them, as users choose the kind of service by it, nor is a claim's
// writeConnectionSecretToRef, by which they name the Secret with its credentials.
func (s Shape) Machinery() []string {
	switch s {
	case Claim:
		return []string{
			"resourceRef", "compositeDeletePolicy",
			"compositionSelector", "compositionRevisionRef", "compositionRevisionSelector",
			"compositionUpdatePolicy", "publishConnectionDetailsTo",
		}
	case Composite:
		return []string{"crossplane"}
	default:
		return nil
	}
}

// Strip removes the machinery from a spec, and returns the fields that it
// removed, sorted.
func (s Shape) Strip(spec map[string]any) []string {
	var removed []string
	for _, field := range s.Machinery() {
		if _, ok := spec[field]; ok {
			delete(spec, field)
			removed = append(removed, field)
		}
	}
	slices.Sort(removed)
	return removed
}

// Steer sets in a spec what the bridge wants of Crossplane: a claim is to stay
// until the service behind it is gone.
func (s Shape) Steer(spec map[string]any) {
	if s == Claim {
		spec["compositeDeletePolicy"] = "Foreground"
	}
}

// SelectComposition has Crossplane make a composite by the composition that
// spec.compositionRef names, as it makes a claim, unless spec.crossplane names
// one. Without either, it is the definition's default.
func (s Shape) SelectComposition(spec map[string]any) {
	name, _, _ := unstructured.NestedString(spec, "compositionRef", "name")
	if s != Composite || name == "" {
		return
	}
	if _, chosen, err := unstructured.NestedFieldNoCopy(spec, "crossplane", "compositionRef"); chosen || err != nil {
		return
	}
	// It fails only where crossplane is no object, which was just seen.
	_ = unstructured.SetNestedField(spec, name, "crossplane", "compositionRef", "name")
}
