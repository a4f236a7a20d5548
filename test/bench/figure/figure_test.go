package figure

import "testing"

func TestAtIsAValueThatWasMeasured(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		samples int
		share   float64
		want    float64
	}{
		{200, 0.99, 198},
		{30, 0.99, 30},
		{30, 0.5, 15},
		{1, 0.5, 1},
	} {
		var s Samples
		for i := range c.samples {
			// In an order that is not theirs.
			s = append(s, float64((i*7)%c.samples+1))
		}
		if got := s.At(c.share); got != c.want {
			t.Errorf("%g of 1 to %d: %g, want %g", c.share, c.samples, got, c.want)
		}
	}
}
