package heartbeat

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/backend/internal/credential"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/test/fakeapi"
)

// What the metric says of a cluster goes with its ClusterBinding: nobody could end the alert.
func TestTheMetricSaysWhichKonnectorsAreThere(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	heard := map[string]time.Time{"there": now, "away": now, "expired": now, "left": now}
	var all []client.Object
	for _, name := range []string{"there", "away", "new", "expired", "left"} {
		all = append(all, &v1alpha1.ClusterBinding{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "u"}})
	}
	for name, record := range map[string]credential.Record{"expired": {Hash: "h", Expires: now}, "left": {}} {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.TenantNamespace(name), Name: v1alpha1.KonnectorSecret}, Data: map[string][]byte{}}
		record.WriteTo(s.Data)
		all = append(all, s)
	}
	numbers := prometheus.NewRegistry()
	c := fakeapi.New(fakeapi.Builder().WithObjects(all...).WithStatusSubresource(all...))
	h, err := New(c, c, func(cluster string) time.Time { return heard[cluster] }, func(string, bool) bool { return false }, numbers)
	if err != nil {
		t.Fatal(err)
	}
	h.Now, h.listening = func() time.Time { return now }, now
	looks := func(want map[string]float64) {
		t.Helper()
		h.look(t.Context()) // it writes the conditions,
		h.look(t.Context()) // and reads them.
		families, err := numbers.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, family := range families {
			for _, m := range family.GetMetric() {
				got[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got) %s", diff)
		}
	}
	looks(map[string]float64{"there": 1, "away": 1, "expired": 1, "left": 1})
	now = now.Add(Patience)
	heard["there"] = now
	looks(map[string]float64{"there": 1, "away": 0, "expired": 0})
	var left v1alpha1.ClusterBinding
	if err := c.Get(t.Context(), client.ObjectKey{Name: "left"}, &left); err != nil {
		t.Fatal(err)
	}
	if c := meta.FindStatusCondition(left.Status.Conditions, v1alpha1.ConditionConnected); c.Status != metav1.ConditionFalse || c.Reason != "Disconnected" || !strings.Contains(c.Message, "kubectl gitbind connect") {
		t.Errorf("of one whose credential was ended it is said %+v", c)
	}
	if err := c.Delete(t.Context(), all[1]); err != nil {
		t.Fatal(err)
	}
	looks(map[string]float64{"there": 1, "expired": 0})
}

func TestAHeartbeatTellsWhatChangedAndNothingElse(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	reasons := map[metav1.ConditionStatus]string{metav1.ConditionUnknown: "NeverSeen", metav1.ConditionTrue: "Seen", metav1.ConditionFalse: "NotSeen"}
	said := func(s metav1.ConditionStatus) *metav1.Condition {
		return &metav1.Condition{Status: s, Reason: reasons[s]}
	}
	left := &metav1.Condition{Status: metav1.ConditionFalse, Reason: disconnected}
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
		{"away, and disconnected then", facts{listening: ago(long), ended: true, written: ago(time.Hour), said: said(metav1.ConditionFalse)}, metav1.ConditionFalse, ago(time.Hour)},
		{"still disconnected", facts{listening: ago(long), ended: true, written: ago(time.Hour), said: left}, "", time.Time{}},
		{"connected again, and not there yet", facts{listening: ago(long), written: ago(time.Hour), said: left}, metav1.ConditionFalse, ago(time.Hour)},
		{"connected again, and there", facts{listening: ago(long), heard: ago(0), written: ago(time.Hour), said: left}, metav1.ConditionTrue, ago(0)},
		{"disconnected before it came", facts{listening: ago(long), ended: true, said: said(metav1.ConditionUnknown)}, "", time.Time{}},
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
