package review

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/claimdiff"
	"gitbind.dev/gitbridge/contract"
)

const (
	orders = "bindings/databases.example.com/claims/team-a/orders.yaml"
	head   = "apiVersion: example.com/v1\nkind: Database\nmetadata:\n  name: orders\n  namespace: team-a\n"
)

// change is of a file that said was, and says is; "" where there is none.
func change(path, was, is string) githost.FileChange {
	f := githost.FileChange{Path: path}
	if was != "" {
		f.Before, f.Was = "b", []byte(was)
	}
	if is != "" {
		f.After, f.Is = "a", []byte(is)
	}
	return f
}

func TestDescribe(t *testing.T) {
	claim := restapi.ChangedFile{Path: orders, Binding: "databases.example.com", Namespace: "team-a", Name: "orders", Kind: "Database"}
	with := func(f restapi.ChangedFile, action restapi.Action, fields ...restapi.FieldChange) restapi.ChangedFile {
		f.Action, f.Fields = action, fields
		return f
	}
	long := strings.Repeat("x", claimdiff.MaxValue-1)
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
		"long values that begin alike": {change(orders, head+"spec: {a: "+long+"x1}\n", head+"spec: {a: "+long+"x2}\n"), with(claim, restapi.ActionUpdate,
			restapi.FieldChange{Field: "spec.a", Before: long + "…", After: long + "…"})},
		"reformatted": {change(orders, head+"spec: {plan: small}\n", head+"spec:\n  plan: small # cheap\n"), with(claim, restapi.ActionUpdate)},
		"cancelled": {change(orders, head+"spec: {plan: small}\n", ""), with(claim, restapi.ActionDelete,
			restapi.FieldChange{Field: "apiVersion", Before: "example.com/v1"}, restapi.FieldChange{Field: "spec.plan", Before: "small"})},
		"mended": {change(orders, "{", head+"spec: {plan: small}\n"), with(claim, restapi.ActionUpdate,
			restapi.FieldChange{Field: "apiVersion", After: "example.com/v1"}, restapi.FieldChange{Field: "spec.plan", After: "small"})},
		"another file": {change("OWNERS", "", "alice\n"), restapi.ChangedFile{Path: "OWNERS", Action: restapi.ActionCreate}},
		"a request":    {change("bindings/databases.example.com/request.yaml", "", "apiVersion: gitbind.dev/v1alpha1\nkind: APIServiceExportRequest\nmetadata:\n  name: databases.example.com\n"), restapi.ChangedFile{Path: "bindings/databases.example.com/request.yaml", Action: restapi.ActionCreate}},
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
	file := func(binding, kind, name string, action restapi.Action) restapi.ChangedFile {
		return restapi.ChangedFile{Binding: binding, Kind: kind, Name: name, Action: action}
	}
	all := []restapi.ChangedFile{
		file("databases.x", "Database", "old", restapi.ActionDelete), file("databases.x", "Database", "new", restapi.ActionCreate), file("databases.x", "Database", "other", restapi.ActionUpdate),
		file("queues.x", "Queue", "old", restapi.ActionDelete), file("queues.x", "Queue", "other", restapi.ActionUpdate),
		{Path: "README.md", Action: restapi.ActionDelete},
	}
	marked := func(alter func(*githost.Change, []restapi.ChangedFile)) []restapi.ChangedFile {
		c, files := &githost.Change{Commits: []githost.Commit{{Email: "alice@example.org"}}}, slices.Clone(all)
		alter(c, files)
		markMoved(cluster, c, files)
		return files
	}
	files := marked(func(*githost.Change, []restapi.ChangedFile) {})
	for i, f := range files {
		if is := f.Held != ""; is != (i == 0) {
			t.Errorf("%s %s %s: held is %q", f.Action, f.Binding, f.Name, f.Held)
		}
	}
	for name, alter := range map[string]func(*githost.Change, []restapi.ChangedFile){
		"the konnector made a commit of it": func(c *githost.Change, _ []restapi.ChangedFile) {
			c.Commits = append(c.Commits, githost.Commit{Email: "dora@" + contract.ClusterDomain(cluster)})
		},
		"some commits are not known":       func(c *githost.Change, _ []restapi.ChangedFile) { c.Older = true },
		"the new file is no claim":         func(_ *githost.Change, files []restapi.ChangedFile) { files[1].Kind = "" },
		"the new file would be refused":    func(_ *githost.Change, files []restapi.ChangedFile) { files[1].Problem = "no plain file" },
		"the new claim is of another kind": func(_ *githost.Change, files []restapi.ChangedFile) { files[1].Kind = "Backup" },
	} {
		if f := marked(alter)[0]; f.Held != "" {
			t.Errorf("%s: of the removal a reviewer is told that %s", name, f.Held)
		}
	}
	if text := comment("w", "u", files); !strings.Contains(text, "held&#44; until somebody decides") || strings.Count(text, "are deleted") != 1 {
		t.Errorf("a reviewer is told\n%s", text)
	}
}

// A request that goes may take all of an API's services with it.
func TestAReviewerHearsWhatBecomesOfTheClaimsOfAnAPIThatGoes(t *testing.T) {
	const path = "bindings/databases.example.com/request.yaml"
	request := func(policy string) string {
		return "apiVersion: gitbind.dev/v1alpha1\nkind: APIServiceExportRequest\nmetadata:\n  name: databases.example.com\nspec:\n  deletionPolicy: " + policy + "\n"
	}
	for _, c := range []struct{ name, before, after, want string }{
		{"it deletes its claims", request("Delete"), "", "this API goes, and all of its claims and their services are deleted"},
		{"it lets go of them", request("Orphan"), "", "their services stay on the control plane"},
		{"it waits for them", request("Refuse"), "", "until then, they and their services stay"},
		{"nobody can tell", "{", "", "not known"},
		{"they are to go with it", request("Refuse"), request("Delete"), "from then on"},
		{"they were to", request("Delete"), request("Refuse"), ""},
		{"it is new", "", request("Refuse"), ""},
	} {
		file, _, _ := describe(change(path, c.before, c.after))
		if got := file.Unbinding; file.Problem != "" || !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q, problem %q", c.name, got, file.Problem)
		}
		files := []restapi.ChangedFile{file}
		check := summarize(&githost.Change{}, files, false)
		if unsaid := strings.Contains(check.Words, "It changes no service"); unsaid != (c.want == "") {
			t.Errorf("%s: the check says %q", c.name, check.Words)
		}
		if text := comment("w", "u", files); !strings.Contains(text, literal(c.want)) {
			t.Errorf("%s: the comment says %q", c.name, text)
		}
	}
	if file, _, _ := describe(change(path, "", "{")); !strings.Contains(file.Problem, path+":1") {
		t.Errorf("of a file that cannot be read: problem %q", file.Problem)
	}
}

// A merge may unbind several APIs: the line of the check has room for few words.
func TestTheGravestOfSeveralUnbindingsIsSaidFirst(t *testing.T) {
	request := func(name, before, after string) restapi.ChangedFile {
		yaml := func(policy string) string {
			if policy == "" || policy == "{" {
				return policy
			}
			return "apiVersion: gitbind.dev/v1alpha1\nkind: APIServiceExportRequest\nmetadata:\n  name: " + name + "\nspec:\n  deletionPolicy: " + policy + "\n"
		}
		file, _, _ := describe(change("bindings/"+name+"/request.yaml", yaml(before), yaml(after)))
		return file
	}
	files := []restapi.ChangedFile{
		request("a.x", "Refuse", ""), request("b.x", "Orphan", ""), request("c.x", "Refuse", "Delete"), request("d.x", "{", ""), request("e.x", "Delete", ""), request("f.x", "Refuse", "Orphan"),
	}
	rest := summarize(&githost.Change{}, files, false).Words
	if !strings.HasPrefix(rest, "bindings/e.x/request.yaml: this API goes, and all of its claims and their services are deleted") {
		t.Errorf("with all of them it says %q", rest)
	}
	for first, left := range map[string][]restapi.ChangedFile{"d.x": files[:4], "c.x": files[:3], "b.x": files[:2], "a.x": files[:1]} {
		if words := summarize(&githost.Change{}, left, false).Words; !strings.HasPrefix(words, "bindings/"+first+"/request.yaml: ") {
			t.Errorf("it says %q, want first that of %s", words, first)
		}
	}
	if words := summarize(&githost.Change{}, files[:2], false).Words; !strings.Contains(words, ". bindings/a.x/request.yaml: this API goes when") {
		t.Errorf("of two it says %q", words)
	}
}
