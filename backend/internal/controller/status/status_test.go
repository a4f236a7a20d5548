package status

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"gitbind.dev/gitbridge/api/v1alpha1"
)

var now = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

func TestStatusIsWrittenOnlyWhenItChanges(t *testing.T) {
	earlier := metav1.NewTime(now.Add(-time.Hour))
	present := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready", Message: "m", ObservedGeneration: 3, LastTransitionTime: earlier}
	same := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready", Message: "m"}
	reworded, turned := same, same
	reworded.Message = "other"
	turned.Status, turned.Reason = metav1.ConditionFalse, "Failed"
	for _, c := range []struct {
		name       string
		present    []metav1.Condition
		want       metav1.Condition
		generation int64
		changed    bool
		writes     int
		since      time.Time
	}{
		{"nothing new", []metav1.Condition{present}, same, 3, false, 0, time.Time{}},
		{"no condition yet", nil, same, 3, false, 1, now},
		{"other words", []metav1.Condition{present}, reworded, 3, false, 1, earlier.Time},
		{"another status", []metav1.Condition{present}, turned, 3, false, 1, now},
		{"a newer generation", []metav1.Condition{present}, same, 4, false, 1, earlier.Time},
		{"another field", []metav1.Condition{present}, same, 3, true, 1, earlier.Time},
	} {
		var written []metav1.Condition
		client := applied(t, &written)
		part := Part{
			Kind: "ClusterBinding", Object: &v1alpha1.ClusterBinding{ObjectMeta: metav1.ObjectMeta{Name: "c", Generation: c.generation}},
			Present: c.present, Condition: c.want, Changed: c.changed,
		}
		if err := part.Apply(t.Context(), client, now); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if len(written) != c.writes {
			t.Errorf("%s: %d writes, want %d", c.name, len(written), c.writes)
			continue
		}
		if c.writes > 0 && (!written[0].LastTransitionTime.Time.Equal(c.since) || written[0].ObservedGeneration != c.generation) {
			t.Errorf("%s: wrote %+v, want it to be so since %s", c.name, written[0], c.since)
		}
	}
}

// applied is a client that collects the conditions that are applied.
func applied(t *testing.T, written *[]metav1.Condition) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).Build(), interceptor.Funcs{
		SubResourceApply: func(_ context.Context, _ client.Client, _ string, o runtime.ApplyConfiguration, _ ...client.SubResourceApplyOption) error {
			b, err := json.Marshal(o)
			if err != nil {
				return err
			}
			var cb v1alpha1.ClusterBinding
			if err := json.Unmarshal(b, &cb); err != nil {
				return err
			}
			*written = append(*written, cb.Status.Conditions...)
			return nil
		},
	})
}
