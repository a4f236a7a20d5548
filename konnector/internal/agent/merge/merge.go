// Package merge merges, field by field, what was changed in the cluster and in
// Git since both agreed. What a field is says the schema: objects by key, lists
// by their x-kubernetes-list-type, everything else whole. It is pure, never
// makes up a value that neither side has, and does not judge whether the API
// server takes the result.
package merge

import (
	"maps"
	"reflect"
	"regexp"
	"slices"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/runtime"

	"gitbind.dev/gitbridge/contract"
)

// Claims merges two normalized versions of a claim that both come from base.
// Spec is the schema of its field spec; nil for none. Conflicts are the fields,
// sorted, that both changed to different values, or that one changed and the
// other removed; in the result they are as in Git. The result shares nothing
// with the arguments.
func Claims(spec *structural.Structural, base, cluster, git *contract.Claim) (merged *contract.Claim, conflicts []string) {
	var m merger
	out := *cluster
	out.Spec = m.object("spec", spec, base.Spec, cluster.Spec, git.Spec)
	out.Labels = texts(m.object("metadata.labels", nil, tree(base.Labels), tree(cluster.Labels), tree(git.Labels)))
	out.Annotations = texts(m.object("metadata.annotations", nil, tree(base.Annotations), tree(cluster.Annotations), tree(git.Annotations)))
	slices.Sort(m.conflicts)
	return &out, m.conflicts
}

// field is a value that may be absent. That is not the same as null.
type field struct {
	value any
	there bool
}

func (f field) equals(o field) bool { return reflect.DeepEqual(f, o) }

func (f field) object() (map[string]any, bool) {
	o, ok := f.value.(map[string]any)
	return o, ok
}

// whole is an object that is always there.
func whole(o map[string]any) field {
	if o == nil {
		o = map[string]any{}
	}
	return field{o, true}
}

type merger struct{ conflicts []string }

func (m *merger) object(path string, s *structural.Structural, base, cluster, git map[string]any) map[string]any {
	merged := m.merge(path, s, whole(base), whole(cluster), whole(git))
	return runtime.DeepCopyJSON(merged.value.(map[string]any))
}

func (m *merger) merge(path string, s *structural.Structural, base, cluster, git field) field {
	switch {
	case cluster.equals(git), git.equals(base):
		return cluster
	case cluster.equals(base):
		return git
	}
	if merged, ok := m.objects(path, s, base, cluster, git); ok {
		return merged
	}
	if merged, ok := m.lists(path, s, base, cluster, git); ok {
		return merged
	}
	m.conflicts = append(m.conflicts, path)
	return git
}

// objects merges by key, where all that there is are objects.
func (m *merger) objects(path string, s *structural.Structural, base, cluster, git field) (field, bool) {
	if isAtomicObject(s) {
		return field{}, false
	}
	b, ok := base.object()
	if !ok && base.there {
		return field{}, false
	}
	c, okC := cluster.object()
	g, okG := git.object()
	if !okC || !okG {
		return field{}, false
	}
	out := map[string]any{}
	for _, key := range keysOf(b, c, g) {
		merged := m.merge(FieldPath(path, key), child(s, key), at(b, key), at(c, key), at(g, key))
		if merged.there {
			out[key] = merged.value
		}
	}
	return field{out, true}, true
}

func at(o map[string]any, key string) field {
	v, ok := o[key]
	return field{v, ok}
}

// keysOf are the keys of all objects, sorted.
func keysOf(objects ...map[string]any) []string {
	all := map[string]bool{}
	for _, o := range objects {
		for key := range o {
			all[key] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

func isAtomicObject(s *structural.Structural) bool {
	return s != nil && s.XMapType != nil && *s.XMapType == "atomic"
}

// child is the schema of a field; nil where the schema says nothing of it.
func child(s *structural.Structural, key string) *structural.Structural {
	if s == nil {
		return nil
	}
	if p, ok := s.Properties[key]; ok {
		return &p
	}
	if s.AdditionalProperties != nil {
		return s.AdditionalProperties.Structural
	}
	return nil
}

var plainKey = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

// FieldPath is the path of a field below another one, as the API server writes it. The base keeps
// hashes of such paths: another spelling would have what was counted of a field forgotten.
func FieldPath(path string, keys ...string) string {
	for _, key := range keys {
		if plainKey.MatchString(key) {
			path += "." + key
		} else {
			path += "[" + key + "]"
		}
	}
	return path
}

func tree(m map[string]string) map[string]any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

func texts(m map[string]any) map[string]string {
	if len(m) == 0 {
		return nil
	}
	out := make(map[string]string, len(m))
	for k, v := range m {
		out[k] = v.(string)
	}
	return out
}
