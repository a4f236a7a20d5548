package claim

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/konnector/internal/agent/budget"
	"gitbind.dev/konnector/internal/agent/repository"
)

// A claim that cannot be looked at has no status that says so.
func TestWhatKeepsAClaimFromBeingLookedAtIsLoggedOnceInAWhile(t *testing.T) {
	t.Parallel()
	lines := 0
	ctx := ctrl.LoggerInto(t.Context(), funcr.New(func(string, string) { lines++ }, funcr.Options{}))
	r := &reconciler{untold: budget.Budget{Most: 1, Every: untoldEvery}}
	broken := errors.New("no such answer")
	for name, c := range map[string]struct {
		err            error
		claims, logged int
	}{
		"one":                                 {broken, 1, 1},
		"many":                                {fmt.Errorf("look: %w", broken), 100, 1},
		"what the controller logs":            {apierrors.NewServiceUnavailable("away"), 1, 0},
		"what the Connection tells":           {repository.ErrNotContacted, 1, 0},
		"a definition that is not served yet": {errRedefined, 1, 0},
	} {
		lines = 0
		for i := range c.claims {
			key := contract.Key{Binding: "b", Namespace: name, Name: fmt.Sprint("claim", i)}
			result, err := r.unlooked(ctx, key, c.err)
			if (err == nil) != (result.RequeueAfter > 0) {
				t.Errorf("%s: after %s, error %v", name, result.RequeueAfter, err)
			}
		}
		if lines != c.logged {
			t.Errorf("%s: %d lines", name, lines)
		}
	}
}

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
