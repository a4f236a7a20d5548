// Package pace bounds how slowly a client may send a request and take its answer. It does not
// bound how much that is, nor how many clients there are.
package pace

import (
	"io"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Limits say how slow a client may be.
type Limits struct {
	// Idle is how long it may go without sending or taking a byte.
	Idle time.Duration
	// Rate is how many bytes a second it must send or take, and Grace by how
	// much time it may fall short of that. The time that the server takes is not
	// the client's.
	Rate  int64
	Grace time.Duration
	// Whole bounds a request from its first byte to its last, the server's work included.
	Whole time.Duration
}

// Default is for all clients.
var Default = Limits{Idle: 30 * time.Second, Rate: 8 << 10, Grace: 30 * time.Second, Whole: 15 * time.Minute}

// pace measures what a client moves in one direction.
type pace struct {
	Limits
	// end is when the request has to be over.
	end time.Time
	// moved are the bytes so far, and spent the time that the client took for
	// them.
	moved int64
	spent time.Duration
}

func (l Limits) begin() pace { return pace{Limits: l, end: time.Now().Add(l.Whole)} }

// deadline is until when the next n bytes must be through.
func (p *pace) deadline(n int) time.Time {
	now := time.Now()
	allowed := p.Grace + time.Duration(float64(p.moved+int64(n))/float64(p.Rate)*float64(time.Second)) - p.spent
	if at := now.Add(min(p.Idle, allowed)); at.Before(p.end) {
		return at
	}
	return p.end
}

func (p *pace) note(start time.Time, n int) {
	p.spent += time.Since(start)
	p.moved += int64(n)
}

// reader reads from a client that has to keep pace.
type reader struct {
	r    io.Reader
	ctl  *http.ResponseController
	pace pace
}

// Reader reads r, the body of the request that w answers. The last deadline stays.
func (l Limits) Reader(w http.ResponseWriter, r io.Reader) io.Reader {
	return &reader{r: r, ctl: http.NewResponseController(w), pace: l.begin()}
}

func (r *reader) Read(b []byte) (int, error) {
	_ = r.ctl.SetReadDeadline(r.pace.deadline(0))
	start := time.Now()
	n, err := r.r.Read(b)
	r.pace.note(start, n)
	return n, err
}

// Writer answers a client that has to keep pace.
type Writer struct {
	http.ResponseWriter
	ctl  *http.ResponseController
	pace pace

	// mu is for deadlines that others set meanwhile.
	mu sync.Mutex
	// own says that the handler sets deadlines itself, and over that one had
	// passed when it was set.
	own, over bool
}

// Writer answers by w. If w is a Writer already, it becomes one of these limits, which count
// from now on: of two, the inner one would set the deadlines and the outer one none. Deadlines
// that the handler has set stay.
func (l Limits) Writer(w http.ResponseWriter) *Writer {
	if w, ok := w.(*Writer); ok {
		w.pace = l.begin()
		return w
	}
	return &Writer{ResponseWriter: w, ctl: http.NewResponseController(w), pace: l.begin()}
}

// maxPart is how much has a deadline of its own.
const maxPart = 32 << 10

func (w *Writer) Write(b []byte) (written int, err error) {
	for part := range slices.Chunk(b, maxPart) {
		n, err := w.keepPace(len(part), func() (int, error) { return w.ResponseWriter.Write(part) })
		if written += n; err != nil {
			return written, err
		}
	}
	return written, nil
}

// FlushError is what http.ResponseController calls.
func (w *Writer) FlushError() error {
	_, err := w.keepPace(0, func() (int, error) { return 0, w.ctl.Flush() })
	return err
}

// keepPace has a deadline for one write of n bytes. By HTTP/2 one that stays
// would end the request while the handler works.
func (w *Writer) keepPace(n int, write func() (int, error)) (int, error) {
	w.setDeadline(w.pace.deadline(n))
	start := time.Now()
	n, err := write()
	w.pace.note(start, n)
	w.setDeadline(time.Time{})
	return n, err
}

func (w *Writer) setDeadline(at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.own {
		_ = w.ctl.SetWriteDeadline(at) // not every writer has deadlines (tests)
	}
}

// SetWriteDeadline is what http.ResponseController calls. From then on deadlines
// are the caller's business. One that has passed ends the answer: no later one
// counts.
func (w *Writer) SetWriteDeadline(at time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return nil
	}
	w.own, w.over = true, !at.IsZero() && at.Before(time.Now())
	return w.ctl.SetWriteDeadline(at)
}

// Unwrap is what http.ResponseController calls.
func (w *Writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// finish bounds what net/http sends after the handler: what its buffers have.
func (w *Writer) finish() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.over {
		_ = w.ctl.SetWriteDeadline(time.Now().Add(w.pace.Idle))
	}
}

// Handler has clients keep pace with the answers of next, but for those of which next sets
// the deadlines.
func (l Limits) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(inner http.ResponseWriter, r *http.Request) {
		w := l.Writer(inner)
		defer w.finish()
		next.ServeHTTP(w, r)
	})
}
