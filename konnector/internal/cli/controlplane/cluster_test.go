package controlplane

import (
	"strings"
	"testing"

	"gitbind.dev/gitbridge/api/restapi"
)

func TestChoose(t *testing.T) {
	all := []restapi.Cluster{{ID: "a1", Name: "prod"}, {ID: "b2", Name: "prod"}, {ID: "c3", Name: "staging"}}
	for ref, want := range map[string]string{"a1": "a1", "staging": "c3"} {
		if got, err := choose(all, ref); err != nil || got.ID != want {
			t.Errorf("%s: %v, %v", ref, got, err)
		}
	}
	// No credential ends by a guess.
	if _, err := choose(all, "prod"); err == nil || !strings.Contains(err.Error(), "give the id, a1 or b2") {
		t.Errorf("an ambiguous name: %v", err)
	}
	if _, err := choose(all, "nope"); err == nil || !strings.Contains(err.Error(), "yours are a1 (prod), b2 (prod), c3 (staging)") {
		t.Errorf("an unknown name: %v", err)
	}
}
