package review

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/claimdiff"
)

const (
	orders = "bindings/databases.example.com/claims/team-a/orders.yaml"
	head   = "apiVersion: example.com/v1\nkind: Database\nmetadata:\n  name: orders\n  namespace: team-a\n"
)

func TestDescribe(t *testing.T) {
	change := func(path, was, is string) githost.FileChange {
		f := githost.FileChange{Path: path}
		if was != "" {
			f.Before, f.Was = "b", []byte(was)
		}
		if is != "" {
			f.After, f.Is = "a", []byte(is)
		}
		return f
	}
	claim := restapi.ChangedFile{Path: orders, Binding: "databases.example.com", Namespace: "team-a", Name: "orders", Kind: "Database"}
	with := func(f restapi.ChangedFile, action restapi.Action, fields ...restapi.FieldChange) restapi.ChangedFile {
		f.Action, f.Fields = action, fields
		return f
	}
	long := strings.Repeat("x", claimdiff.MaxValue)
	for name, c := range map[string]struct {
		in   githost.FileChange
		want restapi.ChangedFile
	}{
		"ordered": {change(orders, "", head+"spec: {plan: small, list: [1, {a: b}], none: {}}\n"), with(claim, restapi.ActionCreate,
			restapi.FieldChange{Field: "apiVersion", After: "example.com/v1"}, restapi.FieldChange{Field: "spec.list[0]", After: "1"},
			restapi.FieldChange{Field: "spec.list[1].a", After: "b"}, restapi.FieldChange{Field: "spec.none", After: "{}"}, restapi.FieldChange{Field: "spec.plan", After: "small"})},
		"changed": {change(orders, head+"spec: {plan: small, old: 1, same: true, empty: ''}\n", head+"spec: {plan: big, same: true, 'a.b': 2}\n"), with(claim, restapi.ActionUpdate,
			restapi.FieldChange{Field: "spec.empty", Before: `""`}, restapi.FieldChange{Field: "spec.old", Before: "1"},
			restapi.FieldChange{Field: "spec.plan", Before: "small", After: "big"}, restapi.FieldChange{Field: `spec["a.b"]`, After: "2"})},
		"long values that begin alike": {change(orders, head+"spec: {a: "+long+"1}\n", head+"spec: {a: "+long+"2}\n"), with(claim, restapi.ActionUpdate,
			restapi.FieldChange{Field: "spec.a", Before: long + "…", After: long + "…"})},
		"reformatted": {change(orders, head+"spec: {plan: small}\n", head+"spec:\n  plan: small # cheap\n"), with(claim, restapi.ActionUpdate)},
		"cancelled": {change(orders, head+"spec: {plan: small}\n", ""), with(claim, restapi.ActionDelete,
			restapi.FieldChange{Field: "apiVersion", Before: "example.com/v1"}, restapi.FieldChange{Field: "spec.plan", Before: "small"})},
		"mended": {change(orders, "{", head+"spec: {plan: small}\n"), with(claim, restapi.ActionUpdate,
			restapi.FieldChange{Field: "apiVersion", After: "example.com/v1"}, restapi.FieldChange{Field: "spec.plan", After: "small"})},
		"another file": {change("OWNERS", "", "alice\n"), restapi.ChangedFile{Path: "OWNERS", Action: restapi.ActionCreate}},
		"a request":    {change("bindings/databases.example.com/request.yaml", "", "kind: x\n"), restapi.ChangedFile{Path: "bindings/databases.example.com/request.yaml", Action: restapi.ActionCreate}},
	} {
		got, _, _ := describe(c.in)
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	link := change(orders, "", "")
	link.After, link.Irregular = "a", true
	for words, in := range map[string]githost.FileChange{
		"no plain file":             link,
		"metadata.name":             change(orders, "", strings.Replace(head, "name: orders", "name: other", 1)+"spec: {}\n"),
		"orders.yaml:1":             change(orders, head+"spec: {}\n", "{"),
		"not the path of a claim":   change("bindings/databases.example.com/claims/stray.yaml", "", "x\n"),
		"too large to be looked at": {Path: orders, After: "a"},
	} {
		got, _, _ := describe(in)
		if !strings.Contains(got.Problem, words) || len(got.Fields) > 0 {
			t.Errorf("%s: problem %q, fields %v", words, got.Problem, got.Fields)
		}
	}
	var many strings.Builder
	for i := range claimdiff.MaxFields + 9 {
		many.WriteString("\n  f" + strings.Repeat("x", i) + ": 1")
	}
	if got, _, _ := describe(change(orders, "", head+"spec:"+many.String()+"\n")); len(got.Fields) != claimdiff.MaxFields || got.MoreFields != 10 {
		t.Errorf("%d fields and %d more", len(got.Fields), got.MoreFields)
	}
}

func TestARemovalWithANewClaimOfItsKindIsHeld(t *testing.T) {
	file := func(binding, name string, action restapi.Action) restapi.ChangedFile {
		return restapi.ChangedFile{Binding: binding, Name: name, Action: action}
	}
	files := []restapi.ChangedFile{
		file("databases.x", "old", restapi.ActionDelete), file("databases.x", "new", restapi.ActionCreate), file("databases.x", "other", restapi.ActionUpdate),
		file("queues.x", "old", restapi.ActionDelete), file("queues.x", "other", restapi.ActionUpdate),
		{Path: "README.md", Action: restapi.ActionDelete},
	}
	markMoved(files)
	for i, f := range files {
		if is := f.Held != ""; is != (i == 0) {
			t.Errorf("%s %s %s: held is %q", f.Action, f.Binding, f.Name, f.Held)
		}
	}
	if text := comment("w", "u", files); !strings.Contains(text, "held&#44; until somebody decides") || strings.Count(text, "are deleted") != 1 {
		t.Errorf("a reviewer is told\n%s", text)
	}
}
