package base

import (
	"encoding/json"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/konnector/internal/agent/merge"
)

// Difference is a field of an object that is not as in another version of it.
type Difference struct {
	// path leads to it from parts. A list is one field.
	path  []string
	value any
	// Gone says that the object does not have it.
	Gone bool
	// Managers are the programs that wrote it, as the object's managed fields say;
	// none where nobody knows, as for a field that is gone.
	Managers []string
}

// Differences are the fields in which an object differs from a version, both
// normalized, sorted. The object's managed fields name who wrote what; without an
// object that is left out.
func Differences(from, live *contract.Claim, object *unstructured.Unstructured) []Difference {
	var out []Difference
	var compare func(path []string, a, b map[string]any)
	compare = func(path []string, a, b map[string]any) {
		keys := make([]string, 0, len(a)+len(b))
		for _, m := range []map[string]any{a, b} {
			for key := range m {
				keys = append(keys, key)
			}
		}
		slices.Sort(keys)
		for _, key := range slices.Compact(keys) {
			before, was := a[key]
			now, is := b[key]
			field := append(slices.Clone(path), key)
			x, isObject := before.(map[string]any)
			y, isObjectNow := now.(map[string]any)
			switch {
			case was == is && reflect.DeepEqual(before, now):
			case isObject && isObjectNow:
				compare(field, x, y)
			default:
				out = append(out, Difference{path: field, value: now, Gone: !is})
			}
		}
	}
	compare(nil, parts(from), parts(live))
	if len(out) > 0 && object != nil {
		owned := ownedBy(object)
		for i := range out {
			out[i].Managers = owned.managers(out[i].path)
		}
	}
	return out
}

// InSpec reports whether it is a field of the spec, and no label or annotation.
func (d Difference) InSpec() bool { return d.path[0] == "spec" }

// Name is the field as people know it, for example "spec.plan".
func (d Difference) Name() string {
	if d.InSpec() {
		return merge.FieldPath("spec", d.path[1:]...)
	}
	return merge.FieldPath("metadata", d.path...)
}

// WithWritten is a base that has these fields as the object has them, though its file
// does not say so. The base is not changed.
func (b *Base) WithWritten(fields []Difference) *Base {
	out, whole := *b, parts(b.Claim)
	for _, d := range fields {
		d.writeTo(whole)
	}
	claim := *b.Claim
	claim.Spec, _ = whole["spec"].(map[string]any)
	claim.Labels, claim.Annotations = texts(whole["labels"]), texts(whole["annotations"])
	out.Claim = &claim
	// Before, the file said all that the base said but these.
	out.LeftOut = slices.Concat(b.LeftOut, LeftOut(b.Claim, &claim))
	slices.Sort(out.LeftOut)
	out.LeftOut = slices.Compact(out.LeftOut)
	return &out
}

func (d Difference) writeTo(whole map[string]any) {
	last := len(d.path) - 1
	for _, key := range d.path[:last] {
		child, ok := whole[key].(map[string]any)
		if !ok {
			child = map[string]any{}
			whole[key] = child
		}
		whole = child
	}
	if d.Gone {
		delete(whole, d.path[last])
		return
	}
	whole[d.path[last]] = runtime.DeepCopyJSONValue(d.value)
}

// owned are, by manager, the fields that it owns, as the API server writes them.
type owned []struct {
	manager string
	fields  map[string]any
}

func ownedBy(u *unstructured.Unstructured) owned {
	var out owned
	for _, entry := range u.GetManagedFields() {
		var fields map[string]any
		if entry.Subresource != "" || entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
			continue
		}
		out = append(out, struct {
			manager string
			fields  map[string]any
		}{entry.Manager, fields})
	}
	return out
}

func (o owned) managers(path []string) []string {
	if path[0] != "spec" {
		path = slices.Insert(slices.Clone(path), 0, "metadata")
	}
	var out []string
	for _, entry := range o {
		if owns(entry.fields, path) && !slices.Contains(out, entry.manager) {
			out = append(out, entry.manager)
		}
	}
	return out
}

// owns reports whether a field, or a whole that it is part of, or a part of it, is
// among those that are owned.
func owns(fields map[string]any, path []string) bool {
	for i, key := range path {
		child, ok := fields["f:"+key].(map[string]any)
		if !ok {
			// An object that is owned as a whole has no fields of its own.
			return i > 1 && len(fields) == 0
		}
		fields = child
	}
	return true
}
