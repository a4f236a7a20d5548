package heartbeat

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gitbind.dev/gitbridge/api/v1alpha1"
)

const (
	// Patience is how long a konnector may keep away before that is said: a few
	// times as long as the longest that one keeps quiet.
	Patience = 5 * time.Minute
	// rarely is how long a contact may be kept in mind only.
	rarely = 30 * time.Minute
	// disconnected is the reason of a cluster that left.
	disconnected = "Disconnected"
)

// facts are what is known of one cluster's konnector.
type facts struct {
	now time.Time
	// listening is since when konnectors can be heard: when this process began.
	listening time.Time
	// heard is the last contact in that time, zero for none.
	heard time.Time
	// ended says that its credential was ended, and no other one was given. It is looked up
	// only of one that was not heard lately.
	ended bool
	// written and said are what the ClusterBinding has: the last contact, zero for
	// none, and the condition, nil for none.
	written time.Time
	said    *metav1.Condition
}

// word is what to write.
type word struct {
	condition metav1.Condition
	lastSeen  time.Time
}

// decide says what to write, and whether it says more than what is there. It
// tells no absence in which it was absent itself, and counts no seconds: a
// condition that is true stays as it is.
func decide(f facts) (w word, news bool) {
	if f.written.After(f.now) {
		f.written = f.listening // by a clock that was ahead
	}
	last := f.heard
	if f.written.After(last) {
		last = f.written
	}
	c := metav1.Condition{Type: v1alpha1.ConditionConnected}
	switch {
	case last.IsZero():
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, "NeverSeen", "the cluster's konnector was not here yet: kubectl gitbind connect installs it"
	case f.now.Sub(last) < Patience:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, "Seen", "the cluster's konnector keeps in touch"
	case f.said != nil && f.now.Sub(f.listening) < Patience:
		return word{}, false
	case f.ended:
		c.Status, c.Reason = metav1.ConditionFalse, disconnected
		c.Message = fmt.Sprintf("not seen since %s, and its credential was ended, as kubectl gitbind disconnect and revoke do: kubectl gitbind connect gives another one", last.UTC().Format(time.RFC3339))
	default:
		c.Status, c.Reason = metav1.ConditionFalse, "NotSeen"
		c.Message = fmt.Sprintf("not seen since %s: its claims wait in Git meanwhile. kubectl gitbind doctor, run against the cluster, says what is in the way", last.UTC().Format(time.RFC3339))
	}
	w = word{condition: c, lastSeen: last}
	if f.said == nil || f.said.Status != c.Status || f.said.Reason != c.Reason {
		return w, true
	}
	return w, c.Status == metav1.ConditionTrue && last.Sub(f.written) >= rarely
}

// copiedCondition is the condition of a cluster of which two live copies are known.
func copiedCondition(cluster string) metav1.Condition {
	return metav1.Condition{
		Type: v1alpha1.ConditionCopied, Status: metav1.ConditionTrue, Reason: "TwoLive",
		Message: fmt.Sprintf("two live copies of this app cluster use its credential, as when an etcd snapshot of it was started beside it: both are held. Its owner decides in the one that is to go on: kubectl gitbind connect URL --reclaim %s ends the other one's credential", cluster),
	}
}

// of gathers the facts of a ClusterBinding.
func of(cb *v1alpha1.ClusterBinding, heard, listening, now time.Time) facts {
	f := facts{now: now, listening: listening, heard: heard, said: meta.FindStatusCondition(cb.Status.Conditions, v1alpha1.ConditionConnected)}
	if cb.Status.LastSeen != nil {
		f.written = cb.Status.LastSeen.Time
	}
	return f
}
