package appcluster

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAbsentBy(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	lease := func(holder string, age time.Duration) *coordinationv1.Lease {
		renewed := metav1.NewMicroTime(now.Add(-age))
		return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &renewed}}
	}
	for _, c := range []struct {
		what  string
		lease *coordinationv1.Lease
		want  string
	}{
		{"renewed a moment ago", lease("a", 2*time.Second), ""},
		{"never held", &coordinationv1.Lease{}, ""},
		{"not renewed", lease("a", 5*time.Minute), "konnector not seen for 5m"},
		{"let go", lease("", time.Second), "konnector stopped 1s ago"},
		{"renewed by a clock that is ahead", lease("a", -time.Hour), "konnector not seen for 0s"},
	} {
		got := ""
		if a := absentBy(c.lease, now); a != nil {
			got = a.Say(now)
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}
