package onboarding

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gitbind.dev/backend/internal/copies"
	"gitbind.dev/backend/internal/login"
	"gitbind.dev/backend/internal/refusal"
	"gitbind.dev/gitbridge/api/v1alpha1"
)

func TestAClusterIsNamedByItsIdOrItsOnlyName(t *testing.T) {
	cluster := func(id, name string) v1alpha1.ClusterBinding {
		return v1alpha1.ClusterBinding{ObjectMeta: metav1.ObjectMeta{Name: id}, Spec: v1alpha1.ClusterBindingSpec{DisplayName: name}}
	}
	// The last one is called as the first one's id: the id counts.
	own := []v1alpha1.ClusterBinding{cluster("aaa", "prod"), cluster("bbb", "dev"), cluster("ccc", "dev"), cluster("ddd", "aaa")}
	for _, c := range []struct {
		name, want, err string
	}{
		{"bbb", "bbb", ""},
		{"prod", "aaa", ""},
		{"aaa", "aaa", ""},
		{"dev", "", "give the id. yours are aaa (prod), bbb (dev), ccc (dev), ddd (aaa)"},
		{"nope", "", "yours are aaa (prod)"},
	} {
		got, err := named(own, c.name)
		switch {
		case c.err == "" && (err != nil || got.Name != c.want):
			t.Errorf("%s: %v, %v", c.name, got, err)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if _, err := named(nil, "prod"); err == nil || !strings.Contains(err.Error(), "none belongs to you") {
		t.Error(err)
	}
}

// A konnector shows its credential again within a minute after the backend began, and is missed by
// nobody before.
func TestAKonnectorThatMayBeLiveKeepsItsRepository(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for _, c := range []struct {
		what                 string
		began, seen, written time.Time
		connected            metav1.ConditionStatus // "" for no condition
		force                bool
		err                  string // "" if it is reclaimed
	}{
		{what: "seen a moment ago", began: ago(time.Hour), seen: ago(10 * time.Second), connected: metav1.ConditionTrue, err: "was here 10s ago"},
		{what: "seen a moment ago, by force", began: ago(time.Hour), seen: ago(10 * time.Second), connected: metav1.ConditionTrue, force: true},
		{what: "not seen for long", began: ago(time.Hour), seen: ago(unseen), connected: metav1.ConditionTrue},
		{what: "live when the backend began", began: ago(10 * time.Second), written: ago(20 * time.Minute), connected: metav1.ConditionTrue, err: "kept in touch until the backend began 10s ago"},
		{what: "live when the backend began, by force", began: ago(10 * time.Second), connected: metav1.ConditionTrue, force: true},
		{what: "live when the backend began, long ago", began: ago(unseen), written: ago(20 * time.Minute), connected: metav1.ConditionTrue},
		{what: "seen since the backend began", began: ago(20 * time.Second), seen: ago(10 * time.Second), connected: metav1.ConditionTrue, err: "was here 10s ago"},
		{what: "written a moment ago", began: ago(10 * time.Second), written: ago(time.Minute), err: "was here 1m0s ago"},
		{what: "away when the backend began", began: ago(10 * time.Second), written: ago(time.Hour), connected: metav1.ConditionFalse},
		{what: "never here", began: ago(10 * time.Second), connected: metav1.ConditionUnknown},
		{what: "away, and written by a clock that was ahead", began: ago(time.Hour), written: now.Add(24 * time.Hour), connected: metav1.ConditionFalse},
		{what: "live, and written by a clock that was ahead", began: ago(10 * time.Second), written: now.Add(24 * time.Hour), connected: metav1.ConditionTrue, err: "kept in touch until the backend began 10s ago"},
	} {
		t.Run(c.what, func(t *testing.T) {
			w := newWorld(t, v1alpha1.ClusterBindingSpec{ClusterUID: "lost"})
			w.Now, w.Began = func() time.Time { return now }, c.began
			w.KonnectorSeen = func(string) time.Time { return c.seen }
			cb := w.cluster()
			if !c.written.IsZero() {
				cb.Status.LastSeen = new(metav1.NewTime(c.written))
			}
			if c.connected != "" {
				cb.Status.Conditions = append(cb.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionConnected, Status: c.connected})
			}
			if err := w.api.Status().Update(t.Context(), cb); err != nil {
				t.Fatal(err)
			}
			_, err := w.claimBinding(t.Context(), alice, connectInput{clusterUID: "rebuilt", displayName: "prod", reclaim: id, force: c.force})
			switch {
			case c.err == "" && (err != nil || w.cluster().Spec.ClusterUID != "rebuilt"):
				t.Errorf("it is not reclaimed: %v", err)
			case c.err != "" && (!refusal.Is(err, refusal.Conflict) || !strings.Contains(err.Error(), c.err) || w.cluster().Spec.ClusterUID != "lost"):
				t.Errorf("%v, want %q", err, c.err)
			}
		})
	}
}

// An owner is an issuer and a subject: with another issuer, and after a hand-over, one person
// may have two of one app cluster, of which the younger is empty.
func TestAClusterThatIsConnectedGetsItsOwnPlaceOrNothingIsMade(t *testing.T) {
	first := func(who login.Identity) string { return clusterID(who.Issuer, who.Subject, builtAs, 0) }
	place := func(name string, owner login.Identity, uid string) *v1alpha1.ClusterBinding {
		return &v1alpha1.ClusterBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ClusterBindingSpec{Owner: ownerOf(owner), ClusterUID: uid, DisplayName: "prod"}}
	}
	for _, c := range []struct {
		what        string
		there       []*v1alpha1.ClusterBinding
		connectedAs string
		reclaim     string
		want        string
		err         string
	}{
		{what: "the first of two by name", there: []*v1alpha1.ClusterBinding{place("aaa", alice, builtAs), place("zzz", alice, builtAs)}, connectedAs: "aaa", want: "aaa"},
		{what: "the second of two by name", there: []*v1alpha1.ClusterBinding{place("aaa", alice, builtAs), place("zzz", alice, builtAs)}, connectedAs: "zzz", want: "zzz"},
		{what: "two, and not connected", there: []*v1alpha1.ClusterBinding{place("aaa", alice, builtAs), place("zzz", alice, builtAs)},
			err: "this cluster has several places of yours: say which one it takes, with --reclaim and the id. yours are aaa (prod), zzz (prod)"},
		{what: "two, and one is said", there: []*v1alpha1.ClusterBinding{place("aaa", alice, builtAs), place("zzz", alice, builtAs)}, reclaim: "zzz", want: "zzz"},
		{what: "one, and not connected", there: []*v1alpha1.ClusterBinding{place("zzz", alice, builtAs)}, want: "zzz"},
		{what: "somebody else's", there: []*v1alpha1.ClusterBinding{place("zzz", bob, builtAs)}, connectedAs: "zzz", err: "this cluster is connected as cluster zzz, which is not yours"},
		{what: "somebody else's, beside one of hers", there: []*v1alpha1.ClusterBinding{place("aaa", alice, builtAs), place("zzz", bob, builtAs)}, connectedAs: "zzz", err: "which is not yours"},
		{what: "somebody else's, who made it", there: []*v1alpha1.ClusterBinding{place(first(alice), bob, builtAs)}, connectedAs: first(alice), err: "which is not yours"},
		{what: "reclaimed by another cluster of hers", there: []*v1alpha1.ClusterBinding{place("zzz", alice, "another")}, connectedAs: "zzz",
			err: "cluster zzz (prod) is another app cluster of yours by now, which took its place: if this one is to have it, as when the control plane was restored to before that, add --reclaim zzz"},
		{what: "her own that was deleted", connectedAs: first(alice), want: first(alice)},
		{what: "somebody else's that was deleted", connectedAs: first(bob), err: "which is not yours"},
	} {
		t.Run(c.what, func(t *testing.T) {
			w := newWorld(t, v1alpha1.ClusterBindingSpec{ClusterUID: "unrelated"})
			w.Copies = copies.New(time.Now())
			for _, cb := range c.there {
				if err := w.api.Create(t.Context(), cb.DeepCopy()); err != nil {
					t.Fatal(err)
				}
			}
			var before, after v1alpha1.ClusterBindingList
			if err := w.api.List(t.Context(), &before); err != nil {
				t.Fatal(err)
			}
			cb, err := w.claimBinding(t.Context(), alice, connectInput{clusterUID: builtAs, displayName: "prod", connectedAs: c.connectedAs, reclaim: c.reclaim})
			if c.err == "" {
				if err != nil || cb.Name != c.want {
					t.Errorf("%v, %v, want %s", cb, err, c.want)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%v, want %q", err, c.err)
			}
			if err := w.api.List(t.Context(), &after); err != nil || len(after.Items) != len(before.Items) {
				t.Errorf("%d ClusterBindings, %d before: %v", len(after.Items), len(before.Items), err)
			}
		})
	}
}
