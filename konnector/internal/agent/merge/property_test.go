package merge

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"pgregory.net/rapid"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"gitbind.dev/gitbridge/contract"
)

// specs draws a spec of few fields with few values, so that versions have much
// in common.
func specs() *rapid.Generator[map[string]any] {
	text := rapid.Map(rapid.SampledFrom([]string{"a", "b", "c"}), func(s string) any { return s })
	whole := rapid.Map(rapid.Int64Range(0, 2), func(i int64) any { return i })
	distinct := rapid.Map(rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 3, rapid.ID), func(l []string) any {
		out := []any{}
		for _, s := range l {
			out = append(out, s)
		}
		return out
	})
	texts := rapid.Map(rapid.SliceOfN(text, 0, 2), func(l []any) any { return append([]any{}, l...) })
	some := func(fields map[string]*rapid.Generator[any]) *rapid.Generator[any] {
		return rapid.Custom(func(t *rapid.T) any { return object(t, fields) })
	}
	users := rapid.Custom(func(t *rapid.T) any {
		out := []any{}
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 3, rapid.ID).Draw(t, "names") {
			user := object(t, map[string]*rapid.Generator[any]{"role": text, "grants": distinct})
			user["name"] = name
			out = append(out, user)
		}
		return out
	})
	note := rapid.OneOf(text, rapid.Just[any](nil))
	free := some(map[string]*rapid.Generator[any]{"x": text, "y": some(map[string]*rapid.Generator[any]{"z": whole}), "l": texts})
	return rapid.Custom(func(t *rapid.T) map[string]any {
		return object(t, map[string]*rapid.Generator[any]{
			"plan": text, "size": whole, "note": note, "users": users, "extensions": distinct, "hosts": texts, "free": free,
			"parameters": some(map[string]*rapid.Generator[any]{"a": text, "b": text}),
			"window":     some(map[string]*rapid.Generator[any]{"from": text, "to": text}),
		})
	})
}

// edited draws a version that has most fields of another one.
func edited(t *rapid.T, name string, base *contract.Claim) *contract.Claim {
	other := specs().Draw(t, name)
	out := map[string]any{}
	for _, key := range keysOf(base.Spec, other) {
		f := at(base.Spec, key)
		if rapid.IntRange(0, 3).Draw(t, "edits "+key) == 0 {
			f = at(other, key)
		}
		if f.there {
			out[key] = f.value
		}
	}
	return of(out)
}

func object(t *rapid.T, fields map[string]*rapid.Generator[any]) map[string]any {
	out := map[string]any{}
	for _, name := range keysOf(asObject(fields)) {
		if rapid.Bool().Draw(t, "has "+name) {
			out[name] = fields[name].Draw(t, name)
		}
	}
	return out
}

func asObject[V any](m map[string]V) map[string]any {
	out := map[string]any{}
	for k, v := range m {
		out[k] = v
	}
	return out
}

func TestWhatOneSideSaysAloneIsTaken(t *testing.T) {
	s := specSchema(t)
	rapid.Check(t, func(rt *rapid.T) {
		base, other := of(specs().Draw(rt, "base")), of(specs().Draw(rt, "other"))
		for _, sides := range [][2]*contract.Claim{{base, other}, {other, base}, {other, other}} {
			got, conflicts := Claims(s, base, sides[0], sides[1])
			if diff := cmp.Diff(other, got); diff != "" || len(conflicts) > 0 {
				rt.Fatalf("conflicts %v, %s", conflicts, diff)
			}
		}
	})
}

// The API server's own typed values say which fields changed, and in what.
func TestMergeChangesWhatEitherSideChanged(t *testing.T) {
	s := specSchema(t)
	converter := typeConverter(t)
	rapid.Check(t, func(rt *rapid.T) {
		base := of(specs().Draw(rt, "base"))
		cluster, git := edited(rt, "cluster", base), edited(rt, "git", base)
		merged, conflicts := Claims(s, base, cluster, git)
		swapped, swappedConflicts := Claims(s, base, git, cluster)
		if diff := cmp.Diff(conflicts, swappedConflicts); diff != "" {
			rt.Fatalf("what conflicts depends on the side: %s", diff)
		}
		typedOf := func(c *contract.Claim) *typed.TypedValue { return asTyped(rt, converter, c) }
		if len(conflicts) == 0 && !typedEqual(rt, typedOf(merged), typedOf(swapped)) {
			rt.Fatalf("disjoint edits do not commute: %v, %v", merged.Spec, swapped.Spec)
		}
		byCluster, byGit := changed(rt, typedOf(base), typedOf(cluster)), changed(rt, typedOf(base), typedOf(git))
		for path := range changed(rt, typedOf(base), typedOf(merged)).All() {
			if !byCluster.Has(path) && !byGit.Has(path) && !isLeftEmpty(merged, path) {
				rt.Fatalf("%s changed, which neither side did: cluster %v, Git %v", path, byCluster, byGit)
			}
		}
		for path := range changed(rt, typedOf(cluster), typedOf(merged)).All() {
			if byCluster.Has(path) && !byGit.Has(path) && !under(path, conflicts) && !isLeftEmpty(merged, path) {
				rt.Fatalf("the cluster's change of %s is gone; conflicts are %v", path, conflicts)
			}
		}
		for path := range changed(rt, typedOf(git), typedOf(merged)).All() {
			if byGit.Has(path) && !isLeftEmpty(merged, path) {
				rt.Fatalf("Git's change of %s is gone", path)
			}
		}
	})
}

// What neither side said of a field is not in the result.
func TestMergeMakesNothingUp(t *testing.T) {
	s := specSchema(t)
	rapid.Check(t, func(rt *rapid.T) {
		base := of(specs().Draw(rt, "base"))
		cluster, git := edited(rt, "cluster", base), edited(rt, "git", base)
		merged, conflicts := Claims(s, base, cluster, git)
		said := map[Change]bool{}
		for _, side := range []*contract.Claim{cluster, git} {
			for _, c := range leaves(s, side) {
				said[c] = true
			}
		}
		for _, c := range leaves(s, merged) {
			if !said[c] {
				rt.Fatalf("nobody said %v", c)
			}
		}
		for _, c := range conflicts {
			if !strings.HasPrefix(c, "spec.") {
				rt.Fatalf("conflict of %q", c)
			}
		}
		// What is merged is a change of either side to the other's version.
		if again, more := Claims(s, git, merged, git); len(more) > 0 || !contract.Equal(again, merged) {
			rt.Fatalf("merged again: %v, conflicts %v", again, more)
		}
	})
}

func leaves(s *structural.Structural, c *contract.Claim) []Change {
	var all changes
	var walk func(path string, s *structural.Structural, f field)
	walk = func(path string, s *structural.Structural, f field) {
		if o, ok := f.object(); ok && !isAtomicObject(s) {
			for _, k := range keysOf(o) {
				walk(FieldPath(path, k), child(s, k), at(o, k))
			}
			return
		}
		if key := keyOf(s); key != nil {
			if l, ok := itemsOf(f, key); ok {
				for k := range l.byKey {
					walk(path+"["+k+"]", s.Items, l.at(k))
				}
				return
			}
		}
		value, _ := text(f.value)
		all = append(all, Change{path, value})
	}
	walk("spec", s, field{c.Spec, true})
	return all
}

func typeConverter(t *testing.T) managedfields.TypeConverter {
	t.Helper()
	whole := spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"object"}, Properties: map[string]spec.Schema{
		"apiVersion": *spec.StringProperty(), "kind": *spec.StringProperty(),
		"metadata": {SchemaProps: spec.SchemaProps{Type: []string{"object"}}, VendorExtensible: spec.VendorExtensible{Extensions: spec.Extensions{"x-kubernetes-preserve-unknown-fields": true}}},
		"spec":     *specSchema(t).ToKubeOpenAPI(),
	}}}
	whole.AddExtension("x-kubernetes-group-version-kind", []any{map[string]any{"group": "anynines.com", "version": "v1", "kind": "PostgresqlInstance"}})
	c, err := managedfields.NewTypeConverter(map[string]*spec.Schema{"com.anynines.v1.PostgresqlInstance": &whole}, false)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func asTyped(t *rapid.T, c managedfields.TypeConverter, version *contract.Claim) *typed.TypedValue {
	v, err := c.ObjectToTyped(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": version.APIVersion, "kind": version.Kind, "metadata": map[string]any{}, "spec": version.Spec,
	}})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func changed(t *rapid.T, from, to *typed.TypedValue) *fieldpath.Set {
	c, err := from.Compare(to)
	if err != nil {
		t.Fatal(err)
	}
	return c.Added.Union(c.Removed).Union(c.Modified)
}

func typedEqual(t *rapid.T, a, b *typed.TypedValue) bool { return changed(t, a, b).Empty() }

// under reports whether a path lies at or below one of those that conflict, as
// far as their words tell.
func under(path fieldpath.Path, conflicts []string) bool {
	for _, c := range conflicts {
		if strings.HasPrefix(strings.TrimPrefix(path.String(), "."), strings.NewReplacer(`["`, `[="`).Replace(c)) {
			return true
		}
	}
	return false
}

// isLeftEmpty: where each side took away other fields of an object, the empty
// object is left, which neither has.
func isLeftEmpty(c *contract.Claim, path fieldpath.Path) bool {
	var at any = map[string]any{"spec": c.Spec}
	for _, e := range path {
		switch list, isList := at.([]any); {
		case e.FieldName != nil:
			o, _ := at.(map[string]any)
			at = o[*e.FieldName]
		case e.Key != nil && isList:
			at = nil
			for _, item := range list {
				if o := item.(map[string]any); fmt.Sprint(o["name"]) == fmt.Sprint((*e.Key)[0].Value.Unstructured()) {
					at = o
				}
			}
		default:
			return false
		}
	}
	v := reflect.ValueOf(at)
	return at != nil && (v.Kind() == reflect.Map || v.Kind() == reflect.Slice) && v.Len() == 0
}
