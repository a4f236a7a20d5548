package terminal

import (
	"fmt"
	"strings"
)

// Colour is a way to show text. The sixteen colours follow a terminal's own
// theme, dark or light.
type Colour string

// The colours.
const (
	Plain  Colour = ""
	Bold   Colour = "\x1b[1m"
	Red    Colour = "\x1b[31m"
	Green  Colour = "\x1b[32m"
	Yellow Colour = "\x1b[33m"
	Cyan   Colour = "\x1b[36m"
)

const reset = "\x1b[0m"

// Paint gives a text a colour, where Out shows colours.
func (t *Terminal) Paint(c Colour, text string) string {
	if !t.Colour || c == Plain || text == "" {
		return text
	}
	if w, ok := t.Out.(*Writer); ok {
		return w.paint(c, text)
	}
	return string(c) + text + reset
}

// Diff prints a unified diff.
func (t *Terminal) Diff(text []byte) {
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		fmt.Fprintln(t.Out, t.Paint(colourOf(line), line))
	}
}

func colourOf(line string) Colour {
	switch {
	case strings.HasPrefix(line, "+++ "), strings.HasPrefix(line, "--- "), strings.HasPrefix(line, "diff "):
		return Bold
	case strings.HasPrefix(line, "@@"):
		return Cyan
	case strings.HasPrefix(line, "+"):
		return Green
	case strings.HasPrefix(line, "-"):
		return Red
	}
	return Plain
}
