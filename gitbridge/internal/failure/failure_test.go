package failure

import (
	"testing"
	"time"
)

func TestAFailureIsToldWhenItLasts(t *testing.T) {
	var times Times
	now := time.Now()
	if got := times.UntilTold("a", now, time.Minute); got != time.Minute {
		t.Errorf("what does not fail waits for %s", got)
	}
	for _, c := range []struct {
		path        string
		after, want time.Duration
	}{{"a", 0, 0}, {"a", time.Second, time.Second}, {"b", 2 * time.Second, 0}, {"a", TellAfter, TellAfter}, {"b", TellAfter, TellAfter - 2*time.Second}} {
		if got := times.Failed(c.path, now.Add(c.after)); got != c.want {
			t.Errorf("%s after %s: it fails for %s, want %s", c.path, c.after, got, c.want)
		}
	}
	for after, want := range map[time.Duration]time.Duration{0: TellAfter, time.Second: TellAfter - time.Second, TellAfter: time.Minute} {
		if got := times.UntilTold("a", now.Add(after), time.Minute); got != want {
			t.Errorf("after %s it waits for %s, want %s", after, got, want)
		}
	}
	times.Worked("a")
	if got := times.Failed("a", now.Add(time.Hour)); got != 0 {
		t.Errorf("it worked in between, and fails for %s", got)
	}
}
