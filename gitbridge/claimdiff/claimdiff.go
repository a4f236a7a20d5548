// Package claimdiff compares two versions of a claim, field by field, for people who review a
// change. It is pure, and what it gives is bounded.
package claimdiff

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gitbind.dev/gitbridge/brief"
	"gitbind.dev/gitbridge/contract"
)

const (
	// MaxFields bounds the fields that are given of one claim.
	MaxFields = 100
	// MaxValue bounds the characters of a value.
	MaxValue = 300
)

// Change is a field with another value, as JSON except for strings; "" where there is no such
// field.
type Change struct{ Field, Before, After string }

// Fields compares two claims, either of which may be nil, field by field, and says how many
// fields more there are than it gives.
func Fields(before, after *contract.Claim) (out []Change, more int) {
	was, is := values(before), values(after)
	for _, name := range slices.Sorted(maps.Keys(was)) {
		if is[name] != was[name] {
			out = append(out, Change{Field: name, Before: brief.Cut(was[name], MaxValue), After: brief.Cut(is[name], MaxValue)})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(is)) {
		if _, ok := was[name]; !ok {
			out = append(out, Change{Field: name, After: brief.Cut(is[name], MaxValue)})
		}
	}
	if more = max(len(out)-MaxFields, 0); more > 0 {
		out = out[:MaxFields]
	}
	return out, more
}

// values are the scalars of a claim, by the names of their fields.
func values(c *contract.Claim) map[string]string {
	out := map[string]string{}
	if c == nil {
		return out
	}
	out["apiVersion"] = c.APIVersion
	for key, value := range c.Labels {
		flatten("metadata.labels"+step(key), value, out)
	}
	for key, value := range c.Annotations {
		flatten("metadata.annotations"+step(key), value, out)
	}
	for key, value := range c.Spec {
		flatten("spec"+step(key), value, out)
	}
	return out
}

// step is a field's name as jsonpath has it: quoted, as no two fields may have one name, and as
// the backend compares names with those that a bridge has written.
func step(key string) string {
	if strings.ContainsAny(key, "./[]'\"") || key == "" {
		return "[" + strconv.Quote(key) + "]"
	}
	return "." + key
}

func flatten(at string, v any, out map[string]string) {
	switch v := v.(type) {
	case map[string]any:
		for key, e := range v {
			flatten(at+step(key), e, out)
		}
		if len(v) > 0 {
			return
		}
	case []any:
		for i, e := range v {
			flatten(fmt.Sprintf("%s[%d]", at, i), e, out)
		}
		if len(v) > 0 {
			return
		}
	case string:
		if v != "" {
			out[at] = v
			return
		}
	}
	text, err := json.Marshal(v)
	if err != nil {
		text = []byte(fmt.Sprint(v))
	}
	out[at] = string(text)
}
