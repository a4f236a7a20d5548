// Package compatibility tells what a newer definition of an API breaks for
// objects that there are. It is about what people write, which is spec and the name:
// status is for the control plane to say. What it cannot compare it takes for a break.
package compatibility

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Hash names a definition, so that a person can approve just this one.
func Hash(crd *apiextensionsv1.CustomResourceDefinition) string {
	// Maps are written in the order of their keys.
	data, err := json.Marshal(crd.Spec)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:5])
}

// Breaks says in words, one for each, what of objects that one definition takes
// the other one does not, sorted.
func Breaks(from, to *apiextensionsv1.CustomResourceDefinition) []string {
	var out []string
	if a, b := from.Spec.Names.Kind, to.Spec.Names.Kind; a != b {
		out = append(out, fmt.Sprintf("kind %s becomes %s", a, b))
	}
	for _, was := range from.Spec.Versions {
		if !was.Served {
			continue
		}
		i := slices.IndexFunc(to.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == was.Name && v.Served })
		if i < 0 {
			out = append(out, fmt.Sprintf("version %s is no longer served", was.Name))
			continue
		}
		out = append(out, version(was, to.Spec.Versions[i])...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func version(from, to apiextensionsv1.CustomResourceDefinitionVersion) []string {
	root := func(v apiextensionsv1.CustomResourceDefinitionVersion) schema {
		if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
			return schema{}
		}
		return *v.Schema.OpenAPIV3Schema
	}
	a, b := root(from), root(to)
	var c comparison
	c.rules("the whole object", a, b)
	c.conditions("the whole object", a, b)
	for _, name := range []string{"name", "generateName"} { // Other metadata has no schema.
		was, is := a.Properties["metadata"].Properties[name], b.Properties["metadata"].Properties[name]
		was.Type, is.Type = "string", "string"
		c.compare("metadata."+name, was, is)
	}
	if slices.Contains(b.Required, "spec") && !slices.Contains(a.Required, "spec") {
		c.add("spec is required")
	}
	if was, ok := a.Properties["spec"]; ok {
		if is, ok := b.Properties["spec"]; ok {
			c.compare("spec", was, is)
		} else {
			c.add("spec is removed")
		}
	}
	return c.breaks
}

type schema = apiextensionsv1.JSONSchemaProps

type comparison struct{ breaks []string }

func (c *comparison) add(format string, args ...any) {
	c.breaks = append(c.breaks, fmt.Sprintf(format, args...))
}

// compare goes through one field and all below it.
func (c *comparison) compare(path string, a, b schema) {
	widened := a.Type == "integer" && b.Type == "number"
	if kind(a) != kind(b) && !widened {
		c.add("%s is %s, and was %s", path, kind(b), kind(a))
		return
	}
	if a.Nullable && !b.Nullable {
		c.add("%s can no longer be null", path)
	}
	c.values(path, a, b)
	c.limits(path, a, b)
	c.rules(path, a, b)
	c.fields(path, a, b)
	c.items(path, a, b)
	c.conditions(path, a, b)
}

func (c *comparison) conditions(path string, a, b schema) {
	for name, changed := range map[string]bool{
		"allOf": len(b.AllOf) > 0 && !Same(a.AllOf, b.AllOf), "anyOf": len(b.AnyOf) > 0 && !Same(a.AnyOf, b.AnyOf),
		"oneOf": len(b.OneOf) > 0 && !Same(a.OneOf, b.OneOf), "not": b.Not != nil && !Same(a.Not, b.Not),
	} {
		if changed {
			c.add("%s has other conditions (%s)", path, name)
		}
	}
}

func kind(s schema) string {
	switch {
	case s.XIntOrString:
		return "integer or string"
	case s.Type == "":
		return "anything"
	}
	return s.Type
}

// values: what was allowed is allowed.
func (c *comparison) values(path string, a, b schema) {
	if len(b.Enum) == 0 {
		return
	}
	if len(a.Enum) == 0 {
		c.add("%s can only be one of %d values", path, len(b.Enum))
		return
	}
	for _, v := range a.Enum {
		if !slices.ContainsFunc(b.Enum, func(w apiextensionsv1.JSON) bool { return Same(v, w) }) {
			c.add("%s can no longer be %s", path, v.Raw)
		}
	}
}

// limits: none is narrower.
func (c *comparison) limits(path string, a, b schema) {
	narrower(c, path, "is at most %v", a.Maximum, b.Maximum, -1)
	narrower(c, path, "is at least %v", a.Minimum, b.Minimum, 1)
	narrower(c, path, "has at most %v characters", a.MaxLength, b.MaxLength, -1)
	narrower(c, path, "has at least %v characters", a.MinLength, b.MinLength, 1)
	narrower(c, path, "has at most %v items", a.MaxItems, b.MaxItems, -1)
	narrower(c, path, "has at least %v items", a.MinItems, b.MinItems, 1)
	narrower(c, path, "has at most %v fields", a.MaxProperties, b.MaxProperties, -1)
	narrower(c, path, "has at least %v fields", a.MinProperties, b.MinProperties, 1)
	for what, changed := range map[string]bool{
		"pattern": b.Pattern != "" && a.Pattern != b.Pattern, "format": b.Format != "" && a.Format != b.Format,
		"multipleOf": b.MultipleOf != nil && !Same(a.MultipleOf, b.MultipleOf), "uniqueItems": b.UniqueItems && !a.UniqueItems,
		"exclusiveMaximum": b.ExclusiveMaximum && !a.ExclusiveMaximum, "exclusiveMinimum": b.ExclusiveMinimum && !a.ExclusiveMinimum,
	} {
		if changed {
			c.add("%s has another %s", path, what)
		}
	}
}

// narrower compares one limit; grows is 1 where a larger one is narrower.
func narrower[N int64 | float64](c *comparison, path, words string, a, b *N, grows N) {
	if b == nil || a != nil && (*b-*a)*grows <= 0 {
		return
	}
	c.add("%s "+words, path, *b)
}

// rules in CEL cannot be compared: each new one may be narrower.
func (c *comparison) rules(path string, a, b schema) {
	for _, rule := range b.XValidations {
		if !slices.ContainsFunc(a.XValidations, func(r apiextensionsv1.ValidationRule) bool { return r.Rule == rule.Rule }) {
			c.add("%s has the new rule %s", path, rule.Rule)
		}
	}
}

func open(s schema) bool { return s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields }

// others is the schema of the fields that a schema does not name, nil where there are none.
func others(s schema) *schema {
	switch more := s.AdditionalProperties; {
	case more != nil && more.Schema != nil:
		return more.Schema
	case open(s), more != nil && more.Allows:
		return &schema{XPreserveUnknownFields: new(true)}
	}
	return nil
}

func (c *comparison) fields(path string, a, b schema) {
	for _, name := range slices.Sorted(maps.Keys(a.Properties)) {
		is, there := b.Properties[name]
		field := path + "." + name
		switch {
		case there:
			c.defaults(field, a.Properties[name], is, slices.Contains(a.Required, name))
			c.compare(field, a.Properties[name], is)
		case open(b):
		case b.AdditionalProperties != nil && b.AdditionalProperties.Schema != nil:
			c.compare(field, a.Properties[name], *b.AdditionalProperties.Schema)
		case b.AdditionalProperties != nil && b.AdditionalProperties.Allows:
		default:
			c.add("%s is removed", field)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b.Properties)) {
		if _, named := a.Properties[name]; !named && others(a) != nil {
			c.defaults(path+"."+name, schema{}, b.Properties[name], false)
			c.compare(path+"."+name, *others(a), b.Properties[name])
		}
	}
	for _, name := range b.Required {
		if field, there := b.Properties[name]; !slices.Contains(a.Required, name) && (!there || field.Default == nil) {
			c.add("%s.%s is required", path, name)
		}
	}
	if open(a) && !open(b) {
		c.add("%s takes only the fields that it names", path)
	}
	switch was, is := a.AdditionalProperties, b.AdditionalProperties; {
	case was == nil, open(b):
	case is == nil || is.Schema == nil && !is.Allows:
		c.add("%s takes only the fields that it names", path)
	case was.Schema == nil && is.Schema != nil:
		c.add("%s.* is %s, and was anything", path, kind(*is.Schema))
	case was.Schema != nil && is.Schema != nil:
		c.compare(path+".*", *was.Schema, *is.Schema)
	}
}

// defaults: what leaves a field out means what it meant.
func (c *comparison) defaults(path string, a, b schema, required bool) {
	switch {
	case b.Default == nil, a.Default == nil && required, Same(a.Default, b.Default):
	case a.Default == nil:
		c.add("%s has the default %s, and had none", path, b.Default.Raw)
	default:
		c.add("%s has the default %s, and had %s", path, b.Default.Raw, a.Default.Raw)
	}
}

func (c *comparison) items(path string, a, b schema) {
	if b.Items == nil || b.Items.Schema == nil {
		return
	}
	if a.Items == nil || a.Items.Schema == nil {
		c.add("%s[] is %s, and was anything", path, kind(*b.Items.Schema))
		return
	}
	c.compare(path+"[]", *a.Items.Schema, *b.Items.Schema)
	switch {
	case b.XListType == nil || *b.XListType == "atomic":
	case !Same(a.XListType, b.XListType):
		c.add("%s is a list of type %s", path, *b.XListType)
	case slices.ContainsFunc(a.XListMapKeys, func(key string) bool { return !slices.Contains(b.XListMapKeys, key) }):
		c.add("%s has at most one item for each %s", path, strings.Join(b.XListMapKeys, " and "))
	}
}

// Same compares as JSON: values in schemas are kept as they were written.
func Same(a, b any) bool {
	text := func(v any) string {
		data, err := json.Marshal(v)
		if err != nil {
			return err.Error()
		}
		var plain any
		if err := json.Unmarshal(data, &plain); err != nil {
			return err.Error()
		}
		data, _ = json.Marshal(plain)
		return string(data)
	}
	return text(a) == text(b)
}
