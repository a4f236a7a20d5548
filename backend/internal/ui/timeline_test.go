package ui

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/lru"

	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/gitbridge/contract"
)

// TestTimelines tells each way of a change, from its commit to where it is now.
func TestTimelines(t *testing.T) {
	t.Parallel()
	at := func(seconds int) time.Time { return now.Add(time.Duration(seconds-600) * time.Second) }
	said := func(seconds int, a answer) answered {
		return answered{fmt.Sprintf("a%d", seconds), at(seconds), &a}
	}
	dora := "dora@" + contract.ClusterDomain(prod)
	applied := travel{
		written: githost.Commit{Hash: "c0", Author: "dora", Email: dora, Subject: "claim: update team-a/orders"},
		arrived: githost.Version{Commit: "c0", Author: "dora", Email: dora, When: at(0)},
	}
	merged := travel{
		written: githost.Commit{Hash: "b0", Author: "Bob", Email: "bob@example.com", When: at(-7200), Subject: "Give orders the big plan"},
		arrived: githost.Version{Commit: "c0", Author: "Alice", Email: "alice@example.com", When: at(0)},
	}
	waiting := answer{result: contract.Applied, ready: "False", since: at(2), waiting: "waiting for a volume"}
	ready := answer{result: contract.Applied, ready: "True", since: at(70)}
	committed := "✓ dora changed it in the cluster (claim: update team-a/orders) c0 13:50:00 UTC"
	for name, tc := range map[string]struct {
		way     travel
		blob    string
		answers []answered
		earlier bool
		want    []string
		took    string
	}{
		"not answered": {applied, "b", nil, false, []string{committed, "… Waits for the control plane (It has not answered this version yet.) now 10 min 0 s"}, ""},
		"not ready": {applied, "b", []answered{said(3, waiting)}, false, []string{
			committed, "✓ Applied on the control plane a3 13:50:03 UTC 3 s", "… Waits for its provider (waiting for a volume) now 9 min 57 s"}, ""},
		"ready": {applied, "b", []answered{said(3, waiting), said(71, ready)}, false, []string{
			committed, "✓ Applied on the control plane a3 13:50:03 UTC 3 s", "✓ Ready, as its provider says 13:51:10 UTC 1 min 7 s", "✓ Its status is back in Git a71 13:51:11 UTC 1 s"}, "1 min 11 s"},
		"a merge": {merged, "b", []answered{said(0, waiting)}, false, []string{
			"✓ Bob changed it by Git, as bob@example.com (Give orders the big plan) b0 11:50:00 UTC", "✓ Alice merged it c0 13:50:00 UTC 2 h 0 min",
			"✓ Applied on the control plane a0 13:50:00 UTC under 1 s", "… Waits for its provider (waiting for a volume) now 10 min 0 s"}, ""},
		"one answer said all": {applied, "b", []answered{said(71, ready)}, false, []string{
			committed, "✓ Applied on the control plane", "✓ Ready, as its provider says 13:51:10 UTC 1 min 10 s", "✓ Its status is back in Git a71 13:51:11 UTC 1 s"}, "1 min 11 s"},
		"ready all along": {applied, "b", []answered{said(4, answer{result: contract.Applied, ready: "True", since: at(-9000)})}, false, []string{
			committed, "✓ Applied on the control plane a4 13:50:04 UTC 4 s", "✓ Ready, as it was before"}, "4 s"},
		"no condition": {applied, "b", []answered{said(4, answer{result: contract.Applied})}, false, []string{committed, "✓ Applied on the control plane a4 13:50:04 UTC 4 s"}, "4 s"},
		"ready no more": {applied, "b", []answered{said(3, waiting), said(71, ready), said(300, answer{result: contract.Applied, ready: "False", waiting: "a node is gone"})}, false, []string{
			committed, "✓ Applied on the control plane a3 13:50:03 UTC 3 s", "✓ Ready, as its provider says 13:51:10 UTC 1 min 7 s", "✓ Its status is back in Git a71 13:51:11 UTC 1 s",
			"… Is not ready any more, and waits for its provider (a node is gone) now 8 min 49 s"}, "1 min 11 s"},
		"denied": {applied, "b", []answered{said(2, answer{result: contract.Denied, message: "no such plan"})}, false, []string{committed, "✕ Denied (no such plan) now 10 min 0 s"}, ""},
		"a clock that is wrong": {applied, "b", []answered{said(-3600, waiting)}, false, []string{
			committed, "✓ Applied on the control plane a-3600 12:50:00 UTC", "… Waits for its provider (waiting for a volume) now 1 h 10 min"}, ""},
		"a history that was cut": {applied, "b", []answered{said(500, waiting), said(501, ready)}, true, []string{
			committed, "✓ Applied on the control plane a500", "✓ Ready, as its provider says 13:51:10 UTC 1 min 10 s", "✓ Its status is back in Git a501 13:58:21 UTC 7 min 11 s"}, "8 min 21 s"},
		"removal held":   {applied, "", []answered{said(2, answer{result: contract.Held, message: "5 at once"})}, false, []string{removing(committed), "! Waits for a decision (5 at once) now 10 min 0 s"}, ""},
		"being deleted":  {applied, "", []answered{said(2, answer{result: contract.Deleting, waiting: "stopping"})}, false, []string{removing(committed), "✓ Deletion began on the control plane a2 13:50:02 UTC 2 s", "… Waits for the service to be gone (stopping) now 9 min 58 s"}, ""},
		"gone":           {applied, "", []answered{said(2, answer{result: contract.Deleting}), said(30, answer{result: contract.Gone})}, false, []string{removing(committed), "✓ Deletion began on the control plane a2 13:50:02 UTC 2 s", "✓ The service is gone a30 13:50:30 UTC 28 s"}, "30 s"},
		"gone in a wink": {applied, "", []answered{said(30, answer{result: contract.Gone})}, false, []string{removing(committed), "✓ The service is gone a30 13:50:30 UTC 30 s"}, "30 s"},
	} {
		way := tc.way
		way.answers, way.earlier = tc.answers, tc.earlier
		var got []string
		for _, s := range way.timeline(prod, tc.blob, now) {
			text := s.Tone.Sign() + " " + s.Title
			if s.Text != "" {
				text += " (" + s.Text + ")"
			}
			if s.Now {
				text += " now"
			}
			got = append(got, strings.Join(strings.Fields(strings.Join([]string{text, s.Commit, s.Clock, s.After}, " ")), " "))
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
		if took := way.took(); took != tc.took {
			t.Errorf("%s took %q, want %q", name, took, tc.took)
		}
	}
}

func removing(committed string) string {
	return strings.Replace(committed, "changed it", "removed it", 1)
}

func ordersRequest(t *testing.T) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, ordersURL, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.AddCookie(&http.Cookie{Name: "who", Value: alice})
	return r
}

// TestTimelineReadsGitOncePerVersion: pages ask each few seconds.
func TestTimelineReadsGitOncePerVersion(t *testing.T) {
	w := lived()
	path := contract.Key{Binding: api, Namespace: "team-a", Name: "orders"}.Path()
	h := w.handler()
	ask := func() string {
		return newRecorder(t, h, ordersRequest(t))
	}
	before := w.asked
	first := ask()
	if !strings.Contains(first, "The last change") || w.asked == before {
		t.Fatalf("no line of time, %d questions:\n%s", w.asked-before, first)
	}
	before = w.asked
	if ask(); w.asked != before {
		t.Errorf("%d questions about what was known", w.asked-before)
	}
	w.files[prod+":main"][path] = file("orders", "huge")
	if page := ask(); !strings.Contains(page, "Waits for the control plane") || w.asked == before {
		t.Error("a change is not seen")
	}
}

// TestH4_NoDiffIsKeptWithALineOfTime: a thousand lines of time are kept.
func TestH4_NoDiffIsKeptWithALineOfTime(t *testing.T) {
	t.Parallel()
	w := lived()
	k := contract.Key{Binding: api, Namespace: "team-a", Name: "orders"}
	c := commit(1, "alice", "alice@example.com", "Much", "+a")
	c.With = []string{"Bob <bob@example.com>"}
	w.log[prod+":"+k.Path()] = []githost.Commit{c}
	h := &handler{Config: Config{Git: w}, travels: lru.New(keepTravels)}
	way, err := h.travelled(t.Context(), prod, k, hash(w.files[prod+":main"][k.Path()]), "")
	if err != nil || way == nil || h.travels.Len() != 1 {
		t.Fatalf("%+v, %v", way, err)
	}
	if way.written.Subject != "Much" || way.written.Diff != nil || way.written.With != nil {
		t.Errorf("kept: %+v", way.written)
	}
}
