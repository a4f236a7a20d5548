package bind

import (
	"slices"
	"strings"
	"testing"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
)

func TestAnOfferThatIsNotThereIsSaidInShort(t *testing.T) {
	offer := func(name, resource string) restapi.Offer {
		return restapi.Offer{Name: name, API: v1alpha1.ExportedAPI{Group: "anynines.com", Version: "v1", Resource: resource}}
	}
	catalog := []restapi.Offer{offer("postgresql", "postgresqlinstances"), offer("backup", "backups"), offer("servicebinding", "servicebindings"), offer("mq", "queues")}
	for name, want := range map[string]string{
		"nosuch":              `there is no offer "nosuch" that you may bind: kubectl gitbind catalog lists those that you may`,
		"postgres":            `there is no offer "postgres" that you may bind: did you mean postgresql? kubectl gitbind catalog lists all`,
		"PostgreSQL":          "did you mean postgresql?",
		"postgersql":          "did you mean postgresql?",
		"postgresqlinstances": "did you mean postgresql?",
		"queue":               "did you mean mq?",
		"qm":                  `that you may bind: kubectl`,
		"":                    `that you may bind: kubectl`,
		"bindings":            "did you mean servicebinding?",
	} {
		if _, err := find(catalog, []string{"mq", name}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", name, err, want)
		}
	}
	if _, err := find(nil, []string{"postgresql"}); err == nil || !strings.Contains(err.Error(), "nor anything else") {
		t.Errorf("nothing is offered: %v", err)
	}
	many := []restapi.Offer{offer("pg-e", "a"), offer("pg-d", "b"), offer("pg-c", "c"), offer("pg-b", "d"), offer("pg-a", "e")}
	if got := similar(many, "pg-"); !slices.Equal(got, []string{"pg-a", "pg-b", "pg-c"}) {
		t.Errorf("of many: %v", got)
	}
}
