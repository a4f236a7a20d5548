package pace

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// deadlines are those that a writer is given.
type deadlines struct {
	http.ResponseWriter
	last, longest time.Time
}

func (d *deadlines) SetWriteDeadline(at time.Time) error {
	if d.last = at; at.After(d.longest) {
		d.longest = at
	}
	return nil
}

func TestADeadlineThatAHandlerSetsIsKept(t *testing.T) {
	for name, own := range map[string]time.Time{"it is to come": time.Now().Add(time.Hour), "it has passed, so the request was ended": time.Unix(1, 0)} {
		t.Run(name, func(t *testing.T) {
			d := &deadlines{ResponseWriter: httptest.NewRecorder()}
			Default.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				ctl := http.NewResponseController(w)
				_ = ctl.SetWriteDeadline(own)
				_, _ = w.Write([]byte("x"))
				_ = ctl.Flush()
				if !d.last.Equal(own) {
					t.Errorf("it became %s while the handler wrote", d.last)
				}
			})).ServeHTTP(d, httptest.NewRequest("GET", "/", nil))
			if passed := own.Before(time.Now()); d.last.Before(time.Now()) != passed {
				t.Errorf("it became %s after the handler", d.last)
			}
		})
	}
}

func TestAnAnswerHasOneWriter(t *testing.T) {
	t.Parallel()
	narrow := Limits{Idle: time.Second, Rate: 1 << 20, Grace: time.Second, Whole: time.Minute}
	wide := Limits{Idle: time.Hour, Rate: 1, Grace: time.Hour, Whole: 24 * time.Hour}
	for name, limits := range map[string]struct{ server, handler Limits }{
		"the handler's limits are wider":    {narrow, wide},
		"the handler's limits are narrower": {wide, narrow},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &deadlines{ResponseWriter: httptest.NewRecorder()}
			limits.server.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				// The answer has used up what the server's limits allow.
				w.(*Writer).pace.spent, w.(*Writer).pace.end = 24*time.Hour, time.Unix(1, 0)
				if got := limits.handler.Writer(w); got != w {
					t.Error("there is another one inside")
				}
				_, _ = w.Write([]byte("x"))
				if left := time.Until(d.longest); left > limits.handler.Idle || left < limits.handler.Idle-time.Second {
					t.Errorf("a write may take %s, by the handler's limits %s", left, limits.handler.Idle)
				}
			})).ServeHTTP(d, httptest.NewRequest("GET", "/", nil))
		})
	}
	t.Run("a request that was ended stays ended", func(t *testing.T) {
		t.Parallel()
		d := &deadlines{ResponseWriter: httptest.NewRecorder()}
		narrow.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_ = http.NewResponseController(w).SetWriteDeadline(time.Unix(1, 0))
			_, _ = wide.Writer(w).Write([]byte("x"))
		})).ServeHTTP(d, httptest.NewRequest("GET", "/", nil))
		if !d.last.Equal(time.Unix(1, 0)) {
			t.Errorf("its deadline became %s", d.last)
		}
	})
}

func TestAnAnswerMayTakeAsLongAsItsSizeAllows(t *testing.T) {
	p := Limits{Idle: time.Minute, Rate: 1 << 10, Grace: time.Second, Whole: time.Hour}.begin()
	for _, c := range []struct {
		moved int64
		spent time.Duration
		n     int
		want  time.Duration
	}{
		{0, 0, 0, time.Second},
		{0, 0, 2 << 10, 3 * time.Second},
		{4 << 10, 4 * time.Second, 1 << 10, 2 * time.Second},
		{0, 0, 1 << 20, time.Minute},
		{16 << 30, 16 << 20 * time.Second, 2 << 10, 3 * time.Second},
	} {
		p.moved, p.spent = c.moved, c.spent
		if got := time.Until(p.deadline(c.n)); got > c.want || got < c.want-time.Second {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
