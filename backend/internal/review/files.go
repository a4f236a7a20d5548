package review

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/contract"
)

const (
	// maxFields bounds the fields that are shown of one claim, and maxValue the
	// characters of a value.
	maxFields, maxValue = 100, 300
)

// describe says what becomes of a file, and gives the claims that it was and is; nil for
// none, and for what is no claim.
func describe(f githost.FileChange) (out restapi.ChangedFile, before, after *contract.Claim) {
	out = restapi.ChangedFile{Path: f.Path, Action: restapi.ActionUpdate, Diff: f.Diff, Cut: f.Cut}
	switch {
	case f.Before == "":
		out.Action = restapi.ActionCreate
	case f.After == "":
		out.Action = restapi.ActionDelete
	}
	key, err := contract.ParsePath(f.Path)
	if err != nil {
		if _, request := contract.ParseRequestPath(f.Path); !request && strings.HasPrefix(f.Path, "bindings/") && f.After != "" {
			out.Problem = err.Error()
		}
		return out, nil, nil
	}
	out.Binding, out.Namespace, out.Name = key.Binding, key.Namespace, key.Name
	before, _ = decode(f.Path, f.Before, f.Was)
	after, problem := decode(f.Path, f.After, f.Is)
	switch {
	case f.Irregular:
		out.Problem = "it is no plain file"
	case f.After != "" && problem != nil:
		out.Problem = problem.Error()
	}
	for _, c := range []*contract.Claim{before, after} {
		if c != nil {
			out.Kind = c.Kind
		}
	}
	if after != nil || f.After == "" {
		out.Fields = fields(before, after)
	}
	if out.MoreFields = max(len(out.Fields)-maxFields, 0); out.MoreFields > 0 {
		out.Fields = out.Fields[:maxFields]
	}
	return out, before, after
}

// held is what agents do with a removal that comes with a new claim of the same kind.
const held = "a new claim of its kind comes with it, as if its file were renamed: the service stays, held, until somebody decides (kubectl gitbind resolve)"

// markMoved says which removals agents would hold, by the rule of guard.Moved.
func markMoved(files []restapi.ChangedFile) {
	ordered := map[string]bool{}
	for _, f := range files {
		if f.Name != "" && f.Action == restapi.ActionCreate {
			ordered[f.Binding] = true
		}
	}
	for i, f := range files {
		if f.Name != "" && f.Action == restapi.ActionDelete && ordered[f.Binding] {
			files[i].Held = held
		}
	}
}

func decode(path, blob string, data []byte) (*contract.Claim, error) {
	switch {
	case blob == "":
		return nil, nil
	case data == nil:
		return nil, fmt.Errorf("%s: it is too large to be looked at here", path)
	}
	return contract.Decode(contract.File{Path: path, Mode: contract.ModeRegular, Size: int64(len(data)), Data: data}, "")
}

// fields compares two claims, either of which may be nil, field by field.
func fields(before, after *contract.Claim) []restapi.FieldChange {
	was, is := values(before), values(after)
	var out []restapi.FieldChange
	for _, name := range slices.Sorted(maps.Keys(was)) {
		if is[name] != was[name] {
			out = append(out, restapi.FieldChange{Field: name, Before: cut(was[name], maxValue), After: cut(is[name], maxValue)})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(is)) {
		if _, ok := was[name]; !ok {
			out = append(out, restapi.FieldChange{Field: name, After: cut(is[name], maxValue)})
		}
	}
	return out
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

// step is a field's name as jsonpath has it.
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

// cut shortens a text to so many characters, and one that says so.
func cut(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most]) + "…"
}
