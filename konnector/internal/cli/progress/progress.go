// Package progress shows a person on a terminal what a command waits for, and
// for how long already. Where there is no terminal it shows nothing of that:
// logs get the lines that say what happened, and no others.
package progress

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"
)

const (
	// every is how often the time is shown anew.
	every = time.Second
	// indent is that of the lines that say what happened.
	indent = "  "
	// wipe empties the line that the cursor is in.
	wipe = "\r\x1b[K"
)

// Progress is one wait.
type Progress struct {
	out  io.Writer
	what string
	live bool
	done chan struct{}

	mu    sync.Mutex
	began time.Time
	ended bool
}

// Begin begins to show what is waited for. The caller ends it.
func Begin(out io.Writer, what string) *Progress {
	f, ok := out.(*os.File)
	p := &Progress{out: out, what: what, live: ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb", done: make(chan struct{}), began: time.Now()}
	if p.live {
		p.draw()
		go p.run()
	}
	return p
}

func (p *Progress) run() {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-p.done:
			return
		case <-ticker.C:
			p.mu.Lock()
			p.draw()
			p.mu.Unlock()
		}
	}
}

// draw shows the state in the line that the cursor is in.
func (p *Progress) draw() {
	if p.ended {
		return
	}
	fmt.Fprintf(p.out, "%s%s… %s (%ds)", wipe, indent, p.what, int(time.Since(p.began).Seconds()))
}

// Say prints a line that stays.
func (p *Progress) Say(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.live && !p.ended {
		fmt.Fprint(p.out, wipe)
	}
	fmt.Fprintln(p.out, indent+line)
	if p.live {
		p.draw()
	}
}

// End takes the line away.
func (p *Progress) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	p.ended = true
	close(p.done)
	if p.live {
		fmt.Fprint(p.out, wipe)
	}
}
