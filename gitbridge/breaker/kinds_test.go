package breaker

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gitbind.dev/gitbridge/api/v1alpha1"
)

func TestWhatIsNotSetIsTheDefault(t *testing.T) {
	most := int32(0)
	for _, test := range []struct {
		name string
		set  *v1alpha1.RemovalLimits
		want Limits
	}{
		{"nothing is set", nil, Default()},
		{"no field is set", &v1alpha1.RemovalLimits{}, Default()},
		{"each removal is asked about", &v1alpha1.RemovalLimits{Most: &most}, Limits{Most: 0, Window: 10 * time.Minute, Share: 0.5, AtLeast: 2}},
		{"a longer window", &v1alpha1.RemovalLimits{Window: &metav1.Duration{Duration: time.Hour}}, Limits{Most: 3, Window: time.Hour, Share: 0.5, AtLeast: 2}},
		{"a third of a binding", &v1alpha1.RemovalLimits{SharePercent: new(int32(33))}, Limits{Most: 3, Window: 10 * time.Minute, Share: 0.33, AtLeast: 2}},
		{"any part of a binding", &v1alpha1.RemovalLimits{SharePercent: new(int32(0))}, Limits{Most: 3, Window: 10 * time.Minute, AtLeast: 2}},
		{"no window", &v1alpha1.RemovalLimits{Window: &metav1.Duration{}}, Default()},
	} {
		if got := LimitsOf(test.set); got != test.want {
			t.Errorf("%s: %+v, want %+v", test.name, got, test.want)
		}
	}
}

func TestWhatAStatusRemembersHasPassed(t *testing.T) {
	at := metav1.NewTime(now)
	got := RemovalsOf([]v1alpha1.Removal{{Path: path("a", 1), Time: at}, {Path: path("b", 2), Time: at}})
	if diff := cmp.Diff([]Removal{{path("a", 1), now}, {path("b", 2), now}}, got); diff != "" {
		t.Error(diff)
	}
}
