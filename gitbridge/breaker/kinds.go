package breaker

import (
	"cmp"

	"gitbind.dev/gitbridge/api/v1alpha1"
)

// LimitsOf are the limits that a Connection or a ClusterBinding sets, with the
// default for what it leaves out.
func LimitsOf(set *v1alpha1.RemovalLimits) Limits {
	l := Default()
	if set != nil && set.Most != nil {
		l.Most = int(*set.Most)
	}
	if set != nil && set.Window != nil {
		l.Window = cmp.Or(set.Window.Duration, l.Window)
	}
	if set != nil && set.SharePercent != nil {
		l.Share = float64(*set.SharePercent) / 100
	}
	return l
}

// RemovalsOf are the removals that a status remembers.
func RemovalsOf(list []v1alpha1.Removal) []Removal {
	var out []Removal
	for _, r := range list {
		out = append(out, Removal{Path: r.Path, At: r.Time.Time})
	}
	return out
}
