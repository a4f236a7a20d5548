// Package progress says what happens while a command waits: lines that stay,
// and on a terminal below them what is waited for, and for how long already.
package progress

import (
	"fmt"
	"sync"

	"gitbind.dev/konnector/internal/cli/output"
	"gitbind.dev/konnector/internal/cli/terminal"
)

// indent is that of the lines that say what happened.
const indent = "  "

// Progress is one wait.
type Progress struct {
	terminal *terminal.Terminal
	what     string

	mu    sync.Mutex
	stop  func()
	ended bool
}

// Begin begins to wait. The caller ends it.
func Begin(t *terminal.Terminal, what string) *Progress {
	p := &Progress{terminal: t, what: indent + what}
	p.stop = t.Waiting(p.what)
	return p
}

// Say prints a line that stays. What it tells may come from elsewhere.
func (p *Progress) Say(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stop()
	fmt.Fprintln(p.terminal.Out, indent+output.Line(line))
	if !p.ended {
		p.stop = p.terminal.Waiting(p.what)
	}
}

// End takes away what was waited for.
func (p *Progress) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	p.stop()
}
