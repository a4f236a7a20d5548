package v1alpha1

import (
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
