package merge

import (
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"

	"gitbind.dev/gitbridge/contract"
)

// Change is a field that differs between two versions.
type Change struct {
	// Path is as the API server writes it, for example
	// "spec.parameters.maxConnections".
	Path string
	// Value is the new one as JSON; "" where the field is gone.
	Value string
}

// Changes are the fields that differ between two normalized versions, sorted by
// path, each as small as the schema allows.
func Changes(spec *structural.Structural, from, to *contract.Claim) []Change {
	var c changes
	c.compare("metadata.annotations", nil, whole(tree(from.Annotations)), whole(tree(to.Annotations)))
	c.compare("metadata.labels", nil, whole(tree(from.Labels)), whole(tree(to.Labels)))
	c.compare("spec", spec, whole(from.Spec), whole(to.Spec))
	return c
}

type changes []Change

func (c *changes) compare(path string, s *structural.Structural, from, to field) {
	if from.equals(to) {
		return
	}
	if a, b, ok := objectsOf(s, from, to); ok {
		for _, key := range keysOf(a, b) {
			c.compare(FieldPath(path, key), child(s, key), at(a, key), at(b, key))
		}
		return
	}
	if key := keyOf(s); key != nil {
		a, okA := itemsOf(from, key)
		b, okB := itemsOf(to, key)
		if okA && okB {
			for _, k := range keysOf(a.byKey, b.byKey) {
				c.compare(path+"["+k+"]", s.Items, a.at(k), b.at(k))
			}
			return
		}
	}
	value := ""
	if to.there {
		value, _ = text(to.value)
	}
	*c = append(*c, Change{path, value})
}

func objectsOf(s *structural.Structural, from, to field) (a, b map[string]any, ok bool) {
	a, okA := from.object()
	b, okB := to.object()
	return a, b, okA && okB && !isAtomicObject(s)
}
