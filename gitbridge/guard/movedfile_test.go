package guard

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"gitbind.dev/gitbridge/contract"
)

func TestL10_AMovedFileIsRecognisedEditedOrNot(t *testing.T) {
	file := func(kind, name, plan string) []byte {
		return []byte("apiVersion: anynines.com/v1\nkind: " + kind + "\nmetadata: {name: " + name + ", namespace: team-a}\nspec: {plan: " + plan + "}\n")
	}
	decode := func(f contract.File) *contract.Claim {
		c, err := contract.Decode(f, "PostgresqlInstance")
		if err != nil {
			return nil
		}
		return c
	}
	key := contract.Key{Binding: api, Namespace: "team-a", Name: "orders"}
	r := Removed{Key: key, Read: decode}
	renamed := contract.Key{Binding: api, Namespace: "team-a", Name: "renamed"}.Path()
	for _, tc := range []struct {
		name          string
		path          string
		data          []byte
		isIn, mayBeIn bool
	}{
		{"its own content elsewhere", renamed, file("PostgresqlInstance", "orders", "small"), true, true},
		{"and edited", renamed, file("PostgresqlInstance", "orders", "large"), true, true},
		{"outside of all bindings", "archive/x.yaml", file("PostgresqlInstance", "orders", "small"), true, true},
		{"renamed", renamed, file("PostgresqlInstance", "renamed", "small"), false, true},
		{"renamed and edited", renamed, file("PostgresqlInstance", "renamed", "large"), false, true},
		{"renamed and at a wrong path", renamed, file("PostgresqlInstance", "somebody", "small"), false, false},
		{"renamed in another binding", contract.Key{Binding: other, Namespace: "team-a", Name: "renamed"}.Path(), file("PostgresqlInstance", "renamed", "small"), false, false},
		{"renamed outside of all bindings", "archive/renamed.yaml", file("PostgresqlInstance", "renamed", "small"), false, false},
		{"another kind", renamed, file("Backup", "orders", "small"), false, false},
		{"words", "README.md", []byte("words"), false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := contract.File{Path: tc.path, Data: tc.data}
			if got := r.IsIn(f); got != tc.isIn {
				t.Errorf("is in: %v", got)
			}
			if got := r.MayBeIn(f); got != tc.mayBeIn {
				t.Errorf("may be in: %v", got)
			}
		})
	}
}

func TestL10_AFileThatMovedMayMoveOn(t *testing.T) {
	later := map[string][]string{"b": {"d", "c"}, "x": {"y"}}
	got := Destinations([]string{"b", "c"}, func(removed string) []string { return later[removed] })
	if diff := cmp.Diff([]string{"b", "c", "d"}, got); diff != "" {
		t.Error(diff)
	}
}
