package v1alpha1

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDisplayNamesTellAPIsApart(t *testing.T) {
	t.Parallel()
	got := DisplayNames(map[string]*Offer{
		"postgresqlinstances.anynines.com": {DisplayName: "PostgreSQL"},
		"databases.example.com":            {DisplayName: "PostgreSQL"},
		"backups.anynines.com":             {DisplayName: "Backup"},
		"odds.example.com":                 nil,
		"evens.example.com":                {},
	})
	want := map[string]string{
		"postgresqlinstances.anynines.com": "PostgreSQL (postgresqlinstances.anynines.com)",
		"databases.example.com":            "PostgreSQL (databases.example.com)",
		"backups.anynines.com":             "Backup",
		"odds.example.com":                 "odds.example.com",
		"evens.example.com":                "evens.example.com",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestReferencesThatHaveNoPlaceAreRefused(t *testing.T) {
	t.Parallel()
	good := Reference{Field: "spec.instanceRef", API: "postgresqlinstances.anynines.com", When: &ReferenceCondition{Field: "spec.type", Value: "postgresql"}}
	for name, tc := range map[string]struct {
		change func(*Reference)
		ok     bool
	}{
		"good":           {func(*Reference) {}, true},
		"always":         {func(r *Reference) { r.When = nil }, true},
		"status":         {func(r *Reference) { r.Field = "status.x" }, false},
		"empty part":     {func(r *Reference) { r.Field = "spec..x" }, false},
		"no group":       {func(r *Reference) { r.API = "postgresqlinstances" }, false},
		"a path":         {func(r *Reference) { r.API = "../x.y" }, false},
		"metadata":       {func(r *Reference) { r.When.Field = "metadata.name" }, false},
		"no value":       {func(r *Reference) { r.When.Value = "" }, false},
		"a longer value": {func(r *Reference) { r.When.Value = strings.Repeat("x", 254) }, false},
	} {
		r := good
		when := *good.When
		r.When = &when
		tc.change(&r)
		if err := (&Offer{References: []Reference{r}}).Validate(); (err == nil) != tc.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := (&Offer{References: make([]Reference, 65)}).Validate(); err == nil {
		t.Error("65 of them")
	}
}
