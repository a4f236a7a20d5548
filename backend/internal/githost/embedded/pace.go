package embedded

import (
	"io"
	"net/http"
	"time"
)

// clientLimits say how slow a client may be.
type clientLimits struct {
	// idle is how long it may go without sending or taking a byte.
	idle time.Duration
	// rate is how many bytes a second it must send or take, and grace by how
	// much time it may fall short of that. The time that git takes is not the
	// client's.
	rate  int64
	grace time.Duration
	// whole bounds a request from its first byte to its last, git's work included.
	whole time.Duration
}

var defaultClientLimits = clientLimits{idle: 30 * time.Second, rate: 8 << 10, grace: 30 * time.Second, whole: 15 * time.Minute}

// pace measures what a client moves in one direction.
type pace struct {
	clientLimits
	// end is when the request has to be over.
	end time.Time
	// moved are the bytes so far, and spent the time that the client took for
	// them.
	moved int64
	spent time.Duration
}

func (p clientLimits) begin() pace { return pace{clientLimits: p, end: time.Now().Add(p.whole)} }

// deadline is until when the next n bytes must be through.
func (p *pace) deadline(n int) time.Time {
	now := time.Now()
	allowed := p.grace + time.Duration((p.moved+int64(n))*int64(time.Second)/p.rate) - p.spent
	if at := now.Add(min(p.idle, allowed)); at.Before(p.end) {
		return at
	}
	return p.end
}

func (p *pace) note(start time.Time, n int) {
	p.spent += time.Since(start)
	p.moved += int64(n)
}

// progressReader reads from a client that has to keep pace.
type progressReader struct {
	r    io.Reader
	ctl  *http.ResponseController
	pace pace
}

func (p *progressReader) Read(b []byte) (int, error) {
	_ = p.ctl.SetReadDeadline(p.pace.deadline(0))
	start := time.Now()
	n, err := p.r.Read(b)
	p.pace.note(start, n)
	return n, err
}

// progressWriter writes to a client that has to keep pace, and sends on what git
// wrote without waiting for more.
type progressWriter struct {
	w       io.Writer
	ctl     *http.ResponseController
	pace    pace
	written bool
}

func (h *Host) progressWriter(w http.ResponseWriter) *progressWriter {
	return &progressWriter{w: w, ctl: http.NewResponseController(w), pace: h.clientLimits.begin()}
}

func (p *progressWriter) Write(b []byte) (int, error) {
	p.written = true
	_ = p.ctl.SetWriteDeadline(p.pace.deadline(len(b)))
	start := time.Now()
	n, err := p.w.Write(b)
	if err == nil {
		err = p.ctl.Flush()
	}
	p.pace.note(start, n)
	return n, err
}
