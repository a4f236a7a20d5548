package env

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// reportEvery is how often a long build says that it is still at work.
const reportEvery = 15 * time.Second

// progress writes lines that say how far a build is.
type progress struct {
	n, total int
	began    time.Time

	mu sync.Mutex
	w  io.Writer
}

func (p *progress) printf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.w, format+"\n", args...)
}

func (p *progress) elapsed() time.Duration { return time.Since(p.began).Round(time.Second) }

// begin announces a step and reports on it until done is called with how it
// ended.
func (p *progress) begin(what string) (done func(result string)) {
	began := time.Now()
	prefix := fmt.Sprintf("[%d/%d] %s", p.n, p.total, what)
	p.printf("%s ...", prefix)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(reportEvery)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				p.printf("%s ... %s (%s in all)", prefix, time.Since(began).Round(time.Second), p.elapsed())
			}
		}
	}()
	return func(result string) {
		close(stop)
		<-stopped
		p.printf("%s %s, %s", prefix, result, time.Since(began).Round(100*time.Millisecond))
	}
}

// lastLines is the end of a program's output.
func lastLines(out []byte, n int) string {
	lines := bytes.Split(bytes.TrimRight(out, "\n"), []byte("\n"))
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return string(bytes.Join(lines, []byte("\n")))
}

func indent(s string) string { return "    " + strings.ReplaceAll(s, "\n", "\n    ") }
