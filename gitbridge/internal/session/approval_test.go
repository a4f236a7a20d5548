package session

import (
	"testing"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/guard"
)

// A claim may come back and go again while an approval is looked up: that is another removal.
func TestAnApprovalLetsGoWhatItWasGivenFor(t *testing.T) {
	held := func(commit string) guard.Verdict {
		return guard.Verdict{Commit: commit, Reason: contract.ManyRemovals}
	}
	for approved, passes := range map[string]bool{"later": true, "earlier": false} {
		enqueued := false
		r := &Removals{all: map[string]*Removal{"p": {Verdict: held("later")}}, enqueue: func(string, bool) { enqueued = true }}
		r.letGo("p", held(approved))
		if now := r.all["p"]; now.IsHeld() == passes || now.Approved != passes || enqueued != passes {
			t.Errorf("approved as of the %s one: %+v", approved, now)
		}
	}
}
