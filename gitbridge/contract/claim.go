package contract

import (
	"encoding/json"
	"maps"
	"math"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Claim is what a claim says, without anything that a server sets.
type Claim struct {
	APIVersion  string
	Kind        string
	Namespace   string
	Name        string
	Labels      map[string]string
	Annotations map[string]string
	// Spec has JSON's types: map[string]any, []any, string, bool, int64,
	// float64, nil.
	Spec map[string]any
}

// FromObject takes from a live object what a claim says, with all labels and
// annotations that may travel. The result shares nothing with the object.
func FromObject(u *unstructured.Unstructured) *Claim {
	spec, _ := u.Object["spec"].(map[string]any)
	return &Claim{
		APIVersion:  u.GetAPIVersion(),
		Kind:        u.GetKind(),
		Namespace:   u.GetNamespace(),
		Name:        u.GetName(),
		Labels:      filter(u.GetLabels(), MayTravel),
		Annotations: filter(u.GetAnnotations(), MayTravel),
		Spec:        canonical(runtime.DeepCopyJSON(orEmpty(spec))).(map[string]any),
	}
}

// Object is the claim as an object to create.
func (c *Claim) Object() *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetAPIVersion(c.APIVersion)
	u.SetKind(c.Kind)
	u.SetNamespace(c.Namespace)
	u.SetName(c.Name)
	c.WriteTo(u, nil)
	return u
}

// WriteTo makes an object say what the claim says: spec as a whole, so that
// removed fields go too, and the labels and annotations that travel by keys, of
// which the claim may have no others. Those that do not travel stay.
func (c *Claim) WriteTo(u *unstructured.Unstructured, keys Keys) {
	u.Object["spec"] = runtime.DeepCopyJSON(orEmpty(c.Spec))
	u.SetLabels(keys.overlay(u.GetLabels(), c.Labels))
	u.SetAnnotations(keys.overlay(u.GetAnnotations(), c.Annotations))
}

// Equal reports whether two normalized claims say the same. The version of the
// API is not compared: one object is served in several.
func Equal(a, b *Claim) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Kind == b.Kind && a.Namespace == b.Namespace && a.Name == b.Name &&
		maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations) &&
		reflect.DeepEqual(orEmpty(a.Spec), orEmpty(b.Spec))
}

func (c *Claim) clone() *Claim {
	out := *c
	out.Labels = maps.Clone(c.Labels)
	out.Annotations = maps.Clone(c.Annotations)
	out.Spec = runtime.DeepCopyJSON(orEmpty(c.Spec))
	return &out
}

func orEmpty(m map[string]any) map[string]any {
	if m == nil {
		return map[string]any{}
	}
	return m
}

// canonical gives equal numbers one type: whole ones are int64.
func canonical(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			v[k] = canonical(e)
		}
	case []any:
		for i, e := range v {
			v[i] = canonical(e)
		}
	case int:
		return int64(v)
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i
		}
		f, _ := v.Float64()
		return canonical(f)
	case float64:
		// Beyond, what a conversion gives depends on the machine.
		if v == math.Trunc(v) && v >= math.MinInt64 && v < math.MaxInt64 {
			return int64(v)
		}
	}
	return v
}
