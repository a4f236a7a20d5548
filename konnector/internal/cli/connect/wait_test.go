package connect

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
)

// A new credential changes no generation, so that what a konnector said of the one before,
// which has ended, still counts.
func TestAKonnectorThatWasReadyBeforeMustUseTheNewCredential(t *testing.T) {
	was, is := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 4, 1, 0, 0, 0, 5, time.UTC)
	connection := func(ready metav1.ConditionStatus, expires time.Time) *v1alpha1.Connection {
		c := &v1alpha1.Connection{ObjectMeta: metav1.ObjectMeta{Name: "default", Generation: 1}}
		c.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: ready, Reason: "R", ObservedGeneration: 1}}
		if !expires.IsZero() {
			c.Status.CredentialExpires = &metav1.Time{Time: expires}
		}
		return c
	}
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
	for _, c := range []struct {
		what        string
		before, now *v1alpha1.Connection
		want        bool
	}{
		{"as it was before", connection(yes, was), connection(yes, was), false},
		{"with the new one", connection(yes, was), connection(yes, is.Truncate(time.Second)), true},
		{"with the next one already", connection(yes, was), connection(yes, is.Add(time.Hour)), true},
		{"with the new one, not ready yet", connection(yes, was), connection(no, is.Truncate(time.Second)), false},
		{"the backend was not asked yet", connection(yes, was), connection(yes, time.Time{}), false},
		{"connected for the first time", nil, connection(yes, time.Time{}), true},
		{"connected for the first time, not ready yet", nil, connection(no, time.Time{}), false},
		{"an older konnector, which does not say it", connection(yes, time.Time{}), connection(yes, time.Time{}), true},
	} {
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(c.now)
		if err != nil {
			t.Fatal(err)
		}
		got, state := readyWith(Awaited(c.before, &restapi.Credential{Expires: is}))(&unstructured.Unstructured{Object: object})
		if got != c.want {
			t.Errorf("%s: %t, %v", c.what, got, state)
		}
	}
}
