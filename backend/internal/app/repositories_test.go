package app

import (
	"slices"
	"testing"

	"gitbind.dev/gitbridge/api/restapi"
)

// Nobody reads a conflict's version from the copy at once, and each look costs of the rate
// limit of the host elsewhere.
func TestWhatAgentsPushedIsLookedAtWhereItIsAProposedChange(t *testing.T) {
	var hinted, looked []string
	r := &repositories{
		hint: func(_ string, e restapi.RefEvent) { hinted = append(hinted, e.Ref) },
		look: func(cluster string) { looked = append(looked, cluster) },
	}
	for _, ref := range []string{"refs/heads/main", "refs/heads/status", "refs/heads/conflicts/a/b/c/1", "refs/heads/changes/a/b/c"} {
		r.pushed(ref, restapi.RefEvent{Ref: ref})
	}
	if !slices.Equal(hinted, []string{"refs/heads/main", "refs/heads/status"}) || !slices.Equal(looked, []string{"refs/heads/changes/a/b/c"}) {
		t.Errorf("hinted %v, looked at %v", hinted, looked)
	}
}
