package review

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/contract"
)

func TestACommentSaysToAnybodyWhatBecomesOfServices(t *testing.T) {
	got := comment("2 files would be refused", "https://gitbind.example.com/clusters/k3x/changes/pull-7", []restapi.ChangedFile{
		{Path: "bindings/x/claims/a/orders.yaml", Action: restapi.ActionUpdate, Kind: "Database", Namespace: "a", Name: "orders", Fields: []restapi.FieldChange{
			{Field: "spec.plan", Before: "small", After: "large"}, {Field: "spec.size", After: "2"},
		}},
		{Path: "bindings/x/claims/a/old.yaml", Action: restapi.ActionDelete, Kind: "Database", Namespace: "a", Name: "old"},
		{Path: "bindings/x/claims/a/bad.yaml", Action: restapi.ActionCreate, Namespace: "a", Name: "bad", Problem: "no such plan"},
		{Path: "README.md", Action: restapi.ActionUpdate},
	})
	const want = `**2 files would be refused.** [All of it](https://gitbind.example.com/clusters/k3x/changes/pull-7)

- <code>bindings&#47;x&#47;claims&#47;a&#47;bad&#46;yaml</code> would be refused: <code>no such plan</code>

| service | field | before | after |
|---|---|---|---|
| changes <code>Database a&#47;orders</code> | <code>spec&#46;plan</code> | <code>small</code> | <code>large</code> |
|  | <code>spec&#46;size</code> |  | <code>2</code> |
| **cancels** <code>Database a&#47;old</code> |  |  | **its service and what is in it are deleted** |
| orders <code>a&#47;bad</code> |  |  |  |
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// asText is what means nothing to Markdown, and in which no host looks for mentions.
var asText = regexp.MustCompile(`<code>(&#\d+;|[\pL\pN ])*</code>`)

// TestNothingThatIsProposedIsMoreThanText has values that would be links, tables, mentions, alone and
// in the words about them.
func TestNothingThatIsProposedIsMoreThanText(t *testing.T) {
	for _, value := range []string{
		"a | b", "`` ` ``", "</code><img src=x>", "@admin #1 !2", "x @acme/everyone", "&#35;12", "[x](javascript:x)", "a\n\n# b", "\\|",
		"http://evil.example.com", "*x* _y_", "a\u202eb", "a\u2028b", "&lt;",
	} {
		if shown := literal(value); asText.FindString("<code>"+shown+"</code>") == "" {
			t.Errorf("%q is %s", value, shown)
		}
		value += " @all"
		changed := comment(value, "u", []restapi.ChangedFile{
			{Path: value, Problem: value, Unbinding: value, Untried: value, Waits: value},
			{Action: restapi.ActionUpdate, Name: value, Held: value},
			{
				Action: restapi.ActionUpdate, Name: value, Fields: []restapi.FieldChange{{Field: value, Before: value, After: value}},
				Effective: []restapi.FieldChange{{Field: value, Before: value, After: value}}, Unchanged: []string{value},
			},
		})
		c := &Checks{service: &Service{PublicURL: "u"}}
		refused := result{key: contract.Key{Binding: "b", Namespace: "n", Name: "m"}, words: value}
		merged := func(results ...result) string { return c.summarizeMerged("c", githost.Check{}, results).Text }
		for _, got := range []struct{ text, want string }{
			{changed, `**X.** [All of it](u)

- X would be refused: X

- X: **X**

- X is not tried on the control plane: X

- X would wait: X

| service | field | before | after |
|---|---|---|---|
| **changes** X |  |  | X |
| changes X | X | X | X |
| on the control plane | X | X | X |
| on the control plane | X | stays as it is | stays as it is |
`},
			{merged(refused), "**X.** [Look at it](u/clusters/c/bindings/b/n/m)\n"},
			{merged(refused, refused), "**X.** [Look at it](u/clusters/c)\n\n- X X\n- X X\n"},
		} {
			if bare := asText.ReplaceAllString(got.text, "X"); bare != got.want {
				t.Errorf("%q is\n%s\nwant\n%s", value, bare, got.want)
			}
		}
	}
	many := restapi.ChangedFile{Action: restapi.ActionUpdate, Name: "x", MoreFields: 5}
	for range 100 {
		many.Fields = append(many.Fields, restapi.FieldChange{Field: "f", After: strings.Repeat("x", 1000)})
	}
	if got := comment("w", "u", []restapi.ChangedFile{many}); !strings.Contains(got, "and 45 more fields") || len(got) > maxRows*(maxCell+100) {
		t.Errorf("%d bytes: %s", len(got), got[len(got)-100:])
	}
}

// TestH4_ACommentIsNoLongerThanHostsTake has as many files as are looked at, each of which is refused.
func TestH4_ACommentIsNoLongerThanHostsTake(t *testing.T) {
	t.Parallel()
	files := make([]restapi.ChangedFile, githost.MaxChangedFiles)
	for i := range files {
		path := fmt.Sprintf("bindings/%d%s", i, strings.Repeat("/.", githost.MaxPath/2))
		files[i] = restapi.ChangedFile{Path: path, Problem: path, Untried: path, Waits: path}
	}
	got := comment("300 files would be refused", "u", files)
	if len(got) > githost.MaxText || !strings.HasSuffix(got, "</code>\n\n… and more\n") {
		t.Errorf("%d bytes: %s", len(got), got[len(got)-100:])
	}
	var results []result
	for range githost.MaxChangedFiles {
		results = append(results, result{contract.Key{Namespace: strings.Repeat("-", 250), Name: "x"}, strings.Repeat("-", 1000), false, false, false})
	}
	c := &Checks{service: &Service{}}
	if check := c.summarizeMerged(cluster, githost.Check{Text: got}, results); len(check.Text) > githost.MaxText {
		t.Errorf("merged, it has %d bytes", len(check.Text))
	}
	if short := ended(strings.Repeat("x\n", githost.MaxText)); len(short) > githost.MaxText || len(short) < githost.MaxText-2 {
		t.Errorf("of short lines, it has %d bytes", len(short))
	}
}
