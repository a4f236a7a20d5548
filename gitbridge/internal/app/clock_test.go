package app_test

import (
	"errors"
	"testing"
	"time"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/app"
)

// TestD13_ABridgeWhoseClockIsAnHourWrong runs a bridge an hour ahead, then one an
// hour behind, then one that is right, on one control plane and one repository:
// time goes back by two hours and on again. Programs of Go read the kernel's clock
// past the C library, so the bridge gets its clock from the test.
func TestD13_ABridgeWhoseClockIsAnHourWrong(t *testing.T) {
	w := newWorld(t)
	widgets := w.define("testdata/plain.yaml")
	w.must(w.control().Rediscover(t.Context()))
	tenant := w.tenant(widgets)
	left, kept := path(widgets, "team-a", "left"), path(widgets, "team-a", "kept")
	for _, clock := range []struct {
		name   string
		offset time.Duration
		color  string
	}{{"ahead", time.Hour, "blue"}, {"behind", -time.Hour, "green"}, {"right", 0, "white"}} {
		// A commit has whole seconds.
		began := time.Now().Truncate(time.Second)
		w.startBridgeWith(app.Options{Now: func() time.Time { return time.Now().Add(clock.offset) }})
		tenant.push("Order", map[string]string{
			left: manifest(left, "  color: "+clock.color), kept: manifest(kept, "  color: "+clock.color),
			path(widgets, "team-a", clock.name): manifest(path(widgets, "team-a", clock.name), "  color: "+clock.color),
		}, object(left, clock.name))
		tenant.wantObject(kept, "spec.color", clock.color)
		tenant.wantObject(left, "spec.color", clock.color)
		tenant.wantObserved()
		if at := tenant.status.Snapshot().Commit().Time; at.Add(-clock.offset).Before(began) || at.Add(-clock.offset).After(time.Now()) {
			t.Errorf("%s: the commit is of %s, want what the bridge's clock said, %s from now, since %s", clock.name, at, clock.offset, began)
		}
		// One removal passes, whatever time it is said to be.
		tenant.push("Cancel", map[string]string{left: ""})
		tenant.wantAnswer(left, contract.Gone)
		w.eventually("the service is gone", func() error {
			if tenant.object(left) != nil {
				return errors.New("it is there")
			}
			return nil
		})
		tenant.wantObserved()
		w.bridge.stop()
	}
	if u := tenant.object(kept); u == nil || u.GetGeneration() != 3 {
		t.Errorf("the claim that stayed is not the one that was made: %v", u)
	}
}
