package terminal

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// Waiting shows on a terminal what is waited for, and for how long already, in
// one line that goes away when stop is called. Elsewhere it shows nothing. No
// other output may come in between: stop first, and start again.
func (t *Terminal) Waiting(text string) (stop func()) {
	if t.Width == 0 {
		return func() {}
	}
	out := t.Out
	if w, ok := out.(*Writer); ok {
		out = w.to // which takes clearLine
	}
	text = harmless(text)
	begin := time.Now()
	ended, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			line := []rune(fmt.Sprintf("%s (%s)", text, time.Since(begin).Truncate(time.Second)))
			fmt.Fprint(out, clearLine+string(line[:min(len(line), t.Width-1)]))
			select {
			case <-ended:
				fmt.Fprint(out, clearLine)
				return
			case <-tick.C:
			}
		}
	}()
	var once sync.Once
	return func() { once.Do(func() { close(ended); <-gone }) }
}

// harmless is a text in one line.
func harmless(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || !IsHarmless(r) {
			return -1
		}
		return r
	}, text)
}

const clearLine = "\r\x1b[K"
