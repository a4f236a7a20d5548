// Package figure holds what was measured, judges it by the targets, and writes
// it down as JSON, as a page and as plots.
package figure

import (
	"math"
	"slices"
	"time"
)

// Figure is one measured value. JSON leaves out what it does not have.
type Figure struct {
	Name string `json:"name"`
	// Host is what has the repositories in place of the embedded host.
	Host string `json:"host,omitempty"`
	// Size is how many claims, files or app clusters there were.
	Size int    `json:"size"`
	Unit string `json:"unit"`
	// P50 and P99 are over all samples. Of few samples, P99 is the worst.
	P50 float64  `json:"p50"`
	P99 *float64 `json:"p99,omitempty"`
	// Floor is the bare client's median in the same run, Ratio how many times
	// that P50 is.
	Floor    *float64 `json:"floor,omitempty"`
	FloorP99 *float64 `json:"floor_p99,omitempty"`
	Ratio    *float64 `json:"ratio,omitempty"`
	// Target is in words, OK whether it was met; neither where there is none.
	Target string `json:"target,omitempty"`
	OK     *bool  `json:"ok,omitempty"`
}

// Target judges a figure.
type Target struct {
	Words string
	Met   func(Figure) bool
}

// RatioAtMost is a target for what has a floor.
func RatioAtMost(limit float64, words string) Target {
	return Target{words, func(f Figure) bool { return f.Ratio != nil && *f.Ratio <= limit }}
}

// AtMost is a target for the median.
func AtMost(limit float64, words string) Target {
	return Target{words, func(f Figure) bool { return f.P50 <= limit }}
}

// TailAtMost is a target for the median and for the 99th percentile.
func TailAtMost(p50, p99 float64, words string) Target {
	return Target{words, func(f Figure) bool { return f.P50 <= p50 && f.P99 != nil && *f.P99 <= p99 }}
}

// TailRatioAtMost is a target for the 99th percentile of what has a floor.
func TailRatioAtMost(limit float64, words string) Target {
	return Target{words, func(f Figure) bool { return f.P99 != nil && f.FloorP99 != nil && *f.P99 <= limit**f.FloorP99 }}
}

// Samples are values in one unit.
type Samples []float64

// Milliseconds adds a duration.
func (s *Samples) Milliseconds(d time.Duration) {
	*s = append(*s, float64(d)/float64(time.Millisecond))
}

// Seconds adds a duration.
func (s *Samples) Seconds(d time.Duration) { *s = append(*s, d.Seconds()) }

// At is the value that a share of the samples does not exceed.
func (s Samples) At(share float64) float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(s))
	return sorted[min(len(sorted)-1, max(0, int(math.Ceil(share*float64(len(sorted))))-1))]
}

// Of makes a figure of samples, and of those of the floor if there are any.
func Of(name string, size int, unit string, subject, floor Samples) Figure {
	f := Figure{Name: name, Size: size, Unit: unit, P50: round(subject.At(0.5))}
	if len(subject) > 1 {
		f.P99 = new(round(subject.At(0.99)))
	}
	if len(floor) > 1 {
		f.FloorP99 = new(round(floor.At(0.99)))
	}
	if len(floor) > 0 {
		f.Floor = new(round(floor.At(0.5)))
		f.Ratio = new(round(subject.At(0.5) / floor.At(0.5)))
	}
	return f
}

// One is a figure of one value.
func One(name string, size int, unit string, value float64) Figure {
	return Figure{Name: name, Size: size, Unit: unit, P50: round(value)}
}

// Judged has a target applied.
func (f Figure) Judged(t Target) Figure {
	f.Target, f.OK = t.Words, new(t.Met(f))
	return f
}

// Title is the figure's name, and where it was taken.
func (f Figure) Title() string {
	if f.Host == "" {
		return f.Name
	}
	return f.Name + ", on " + f.Host
}

// round leaves three digits, which is more than the machine is good for.
func round(v float64) float64 {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	scale := math.Pow(10, 2-math.Floor(math.Log10(math.Abs(v))))
	if scale < 1 {
		return math.Round(v)
	}
	return math.Round(v*scale) / scale
}
