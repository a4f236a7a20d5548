package catalog

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/konnector/internal/cli/output"
	"gitbind.dev/konnector/internal/cli/terminal"
)

var offers = []restapi.Offer{
	{Name: "queue", API: v1alpha1.ExportedAPI{Group: "example.com", Version: "v1", Resource: "queues"}, Kind: "Queue", DisplayName: "Queue", Group: "Messaging"},
	{Name: "postgresql", API: v1alpha1.ExportedAPI{Group: "anynines.com", Version: "v1", Resource: "postgresqlinstances"}, Kind: "PostgresqlInstance",
		DisplayName: "PostgreSQL", Group: "Databases", Description: "A database\nof your own", Bound: []string{"prod", "staging"}},
	{Name: "backup", API: v1alpha1.ExportedAPI{Group: "anynines.com", Version: "v1", Resource: "backups"}, Kind: "Backup", DisplayName: "Backups", Group: "Databases"},
}

func TestTheCatalogIsGroupedAndSaysWhatIsBound(t *testing.T) {
	bound := map[string]bool{"backups.anynines.com": true, "queues.example.com": false}
	for format, want := range map[output.Format]string{
		output.Table: `GROUP       NAME         BOUND   DESCRIPTION
Databases   backup       yes     Backups
Databases   postgresql   no      PostgreSQL: A database of your own
Messaging   queue        no
`,
		output.Wide: `GROUP       NAME         BOUND   KIND                 API                                   BOUND IN        DESCRIPTION
Databases   backup       yes     Backup               backups.anynines.com/v1               -               Backups
Databases   postgresql   no      PostgresqlInstance   postgresqlinstances.anynines.com/v1   prod, staging   PostgreSQL: A database of your own
Messaging   queue        no      Queue                queues.example.com/v1                 -
`,
		output.Name: "backup\npostgresql\nqueue\n",
	} {
		var got bytes.Buffer
		if err := listing(search(offers, ""), bound).Print(terminal.Open(nil, &got), format); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got.String()); diff != "" {
			t.Errorf("-o %s (-want +got):\n%s", format, diff)
		}
	}
	var got bytes.Buffer
	if err := listing(offers[:1], nil).Print(terminal.Open(nil, &got), output.YAML); err != nil || strings.Contains(got.String(), "boundHere") {
		t.Errorf("without a cluster: %s, %v", got.String(), err)
	}
}

func TestSearchLooksAtAllThatAPersonMayKnow(t *testing.T) {
	for text, want := range map[string]string{
		"": "backup postgresql queue", "POSTGRES": "postgresql", "databases": "backup postgresql", "queues.example": "queue", "own": "postgresql", "nothing": "",
	} {
		var names []string
		for _, o := range search(offers, text) {
			names = append(names, o.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
