package heartbeat

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAHeartbeatTellsWhatChangedAndNothingElse(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	said := func(s metav1.ConditionStatus) *metav1.Condition { return &metav1.Condition{Status: s} }
	const long = 24 * time.Hour
	for _, c := range []struct {
		name  string
		facts facts
		want  metav1.ConditionStatus // "" for nothing new
		seen  time.Time
	}{
		{"a new cluster", facts{listening: ago(long)}, metav1.ConditionUnknown, time.Time{}},
		{"still new", facts{listening: ago(long), said: said(metav1.ConditionUnknown)}, "", time.Time{}},
		{"its first contact", facts{listening: ago(long), heard: ago(time.Second), said: said(metav1.ConditionUnknown)}, metav1.ConditionTrue, ago(time.Second)},
		{"another contact", facts{listening: ago(long), heard: ago(time.Second), written: ago(29 * time.Minute), said: said(metav1.ConditionTrue)}, "", time.Time{}},
		{"one after half an hour", facts{listening: ago(long), heard: ago(0), written: ago(rarely), said: said(metav1.ConditionTrue)}, metav1.ConditionTrue, ago(0)},
		{"quiet for a while", facts{listening: ago(long), heard: ago(Patience - time.Second), written: ago(time.Hour), said: said(metav1.ConditionTrue)}, metav1.ConditionTrue, ago(Patience - time.Second)},
		{"away", facts{listening: ago(long), heard: ago(Patience), written: ago(10 * time.Minute), said: said(metav1.ConditionTrue)}, metav1.ConditionFalse, ago(Patience)},
		{"still away", facts{listening: ago(long), heard: ago(time.Hour), written: ago(time.Hour), said: said(metav1.ConditionFalse)}, "", time.Time{}},
		{"back", facts{listening: ago(long), heard: ago(0), written: ago(time.Hour), said: said(metav1.ConditionFalse)}, metav1.ConditionTrue, ago(0)},
		{"the backend was away for an hour", facts{listening: ago(time.Minute), written: ago(time.Hour), said: said(metav1.ConditionTrue)}, "", time.Time{}},
		{"the backend is back, and the konnector is not", facts{listening: ago(Patience), written: ago(time.Hour), said: said(metav1.ConditionTrue)}, metav1.ConditionFalse, ago(time.Hour)},
		{"the backend is back, and so is the konnector", facts{listening: ago(time.Minute), heard: ago(0), written: ago(time.Minute), said: said(metav1.ConditionTrue)}, "", time.Time{}},
		{"the backend was away while it was said to be away", facts{listening: ago(time.Minute), written: ago(time.Hour), said: said(metav1.ConditionFalse)}, "", time.Time{}},
		{"away, and seen tomorrow", facts{listening: ago(Patience), written: ago(-long), said: said(metav1.ConditionTrue)}, metav1.ConditionFalse, ago(Patience)},
		{"there, and seen tomorrow", facts{listening: ago(rarely), heard: ago(0), written: ago(-long), said: said(metav1.ConditionTrue)}, metav1.ConditionTrue, ago(0)},
		{"a condition that somebody removed", facts{listening: ago(time.Minute), written: ago(time.Hour)}, metav1.ConditionFalse, ago(time.Hour)},
	} {
		c.facts.now = now
		w, news := decide(c.facts)
		if news != (c.want != "") || news && (w.condition.Status != c.want || !w.lastSeen.Equal(c.seen)) {
			t.Errorf("%s: news %v, %+v, want %q at %s", c.name, news, w, c.want, c.seen)
		}
		if news && c.want == metav1.ConditionFalse && !strings.Contains(w.condition.Message, "not seen since "+c.seen.Format(time.RFC3339)) {
			t.Errorf("%s: %s", c.name, w.condition.Message)
		}
	}
}
