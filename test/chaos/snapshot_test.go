package chaos

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gitbind.dev/test/scan"
)

func TestARunIsRestoredOnceInItsMiddleOrNotAtAll(t *testing.T) {
	plan := []Fault{{At: time.Second}, {At: time.Minute}, {At: 4 * time.Minute}}
	with := func(length time.Duration) (restores []Fault) {
		last := time.Duration(0)
		for _, f := range withEtcdRestore(rand.New(rand.NewPCG(1, 5)), length, "app", plan) {
			if f.At < last {
				t.Errorf("%s is not in order", f)
			}
			if last = f.At; f.Kind == RestoreEtcd {
				restores = append(restores, f)
			}
		}
		return restores
	}
	if got := with(time.Minute); len(got) != 0 {
		t.Errorf("a short run has %v", got)
	}
	got := with(5 * time.Minute)
	if len(got) != 1 || got[0].At < 75*time.Second || got[0].At > 150*time.Second {
		t.Errorf("it has %v", got)
	}
	if diff := cmp.Diff(got, with(5*time.Minute)); diff != "" {
		t.Errorf("the same seed gives another one:\n%s", diff)
	}
}

// TestKnown is about what the app cluster has accepted and may have lost.
func TestKnown(t *testing.T) {
	at := func(second int) time.Time { return time.Unix(int64(1000+second), 0) }
	edit := func(second int, value string) Entry {
		return Entry{Sent: at(second), Done: at(second), Side: Cluster, Op: Edit, Claim: "one", Field: "cluster.c0", Value: value, Outcome: Accepted}
	}
	r := newEtcdRestore(t.Context())
	r.from, r.to, r.reached = at(10), at(20), map[string]bool{"c0: on-main": true}
	during := edit(9, "while it ended for the snapshot")
	during.Done = at(11)
	until := edit(19, "until it was restored")
	until.Done = at(21)
	git := edit(15, "git")
	git.Side = Git
	entries := []Entry{edit(5, "before"), edit(11, "on-main"), edit(12, "lost"), edit(13, ""), edit(14, "before"), git, during, until, edit(21, "as soon as it is restored"), edit(25, "after")}
	if got, lost := r.known(entries); lost != 0 || !cmp.Equal(got, entries) {
		t.Errorf("without a restore %d are lost: %v", lost, got)
	}
	r.end(errRestored)
	got, lost := r.known(entries)
	var outcomes []Outcome
	for _, e := range got {
		outcomes = append(outcomes, e.Outcome)
	}
	if diff := cmp.Diff([]Outcome{Accepted, Accepted, Refused, Unknown, Unknown, Accepted, Unknown, Unknown, Accepted, Accepted}, outcomes); diff != "" || lost != 1 {
		t.Errorf("%d are lost: %s", lost, diff)
	}
}

// TestALookSaysWhatIsThere is about a claim that was deleted and created again since the
// snapshot.
func TestALookSaysWhatIsThere(t *testing.T) {
	e := func(op Op, life int, value, note string) Entry {
		return Entry{Side: Cluster, Op: op, Claim: "one", Life: life, Field: "cluster.c0", Value: value, Outcome: Accepted, Note: note}
	}
	before := []Entry{e(Create, 1, "", "a"), e(Edit, 1, "first", ""), e(Delete, 1, "", ""), e(Create, 2, "", "b"), e(Edit, 2, "second", "")}
	for name, c := range map[string]struct {
		look  Entry
		value string
		lives int
		there bool
	}{
		"lost with its second life":            {e(Look, 1, "", "a"), "first", 2, true},
		"its first object has its second life": {e(Look, 2, "", "a"), "second", 2, true},
		"made again from its file":             {e(Look, 2, "", "c"), "second", 3, true},
		"gone":                                 {e(Look, 2, "", ""), "second", 2, false},
	} {
		s := tell(append(before[:len(before):len(before)], c.look))["one"]
		if got := s.fields["cluster.c0"][0].Value; got != c.value || s.lives["app"] != c.lives || s.lives["control"] != 2 || *s.there != c.there {
			t.Errorf("%s: %q, %v, %v", name, got, s.lives, *s.there)
		}
	}
}

// TestDeliveriesGoBackWithTheCluster is about values that are there again.
func TestDeliveriesGoBackWithTheCluster(t *testing.T) {
	value := func(d *deliveries, claim, object string, number string) credential {
		return credential{value: d.values.Value(claim + " " + object + " " + number), owner: "a"}
	}
	const claim = "widgets.chaos.example team-a/one"
	for name, c := range map[string]struct {
		made  bool
		then  [][2]string
		found int
	}{
		"the old value and then the newer one":         {false, [][2]string{{"o", "3"}, {"o", "5"}}, 0},
		"a value from before the snapshot":             {false, [][2]string{{"o", "2"}}, 1},
		"another service's, though none was made":      {false, [][2]string{{"o", "3"}, {"p", "6"}}, 1},
		"another service's, as it has its place since": {true, [][2]string{{"o", "3"}, {"p", "6"}}, 0},
	} {
		d := newDeliveries(scan.New())
		d.add(claim, value(d, claim, "o", "3"))
		before := d.copy()
		d.add(claim, value(d, claim, "o", "5"))
		d.goBack(before, map[string]bool{claim: c.made})
		for _, v := range c.then {
			d.add(claim, value(d, claim, v[0], v[1]))
		}
		if len(d.found) != c.found {
			t.Errorf("%s: %v", name, d.found)
		}
	}
}
