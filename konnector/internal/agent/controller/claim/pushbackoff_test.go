package claim

import (
	"testing"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
)

// What cannot be committed, and is not tried again by itself, is no reason to forget that one of
// the claim's Secrets is to be tried again.
func TestWhatIsDueIsNotForgottenForAPushThatFails(t *testing.T) {
	t.Parallel()
	soon := time.Now().Add(30 * time.Second)
	for name, c := range map[string]struct {
		look     look
		push     time.Duration
		from, to time.Duration
	}{
		"nothing":                  {look{}, 0, 0, 0},
		"the push alone":           {look{}, time.Second, time.Second, time.Second},
		"a Secret alone":           {look{secretsDue: soon}, 0, 20 * time.Second, 30 * time.Second},
		"a Secret before the push": {look{secretsDue: soon}, time.Hour, 20 * time.Second, 30 * time.Second},
		"a Secret after the push":  {look{secretsDue: soon}, time.Second, time.Second, time.Second},
		"what is overdue":          {look{secretsDue: soon.Add(-time.Hour)}, time.Second, 1, time.Millisecond},
	} {
		if got := c.look.whenDue(ctrl.Result{RequeueAfter: c.push}).RequeueAfter; got < c.from || got > c.to {
			t.Errorf("%s: after %s", name, got)
		}
	}
	inputs := look{}
	inputs.inputs.due = soon
	if got := inputs.whenDue(ctrl.Result{}).RequeueAfter; got < 20*time.Second || got > 30*time.Second {
		t.Errorf("inputs: after %s", got)
	}
}
