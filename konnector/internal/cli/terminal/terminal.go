// Package terminal asks people on a terminal, and knows when there is none. It
// asks nothing of scripts: what they leave open is an error that names the flag.
package terminal

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// Terminal is where a command reads and writes.
type Terminal struct {
	In  io.Reader
	Out io.Writer
	// Interactive says that a person is there to answer.
	Interactive bool
	// Colour says that Out shows colours.
	Colour bool
}

// Open looks whether in and out are a terminal.
func Open(in io.Reader, out io.Writer) *Terminal {
	_, plain := os.LookupEnv("NO_COLOR")
	return &Terminal{
		In: in, Out: out,
		Interactive: isTerminal(in) && isTerminal(out),
		Colour:      isTerminal(out) && !plain && os.Getenv("TERM") != "dumb",
	}
}

func isTerminal(v any) bool {
	f, ok := v.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Confirm asks for a yes. Anything else, and the end of the input, is a no.
func (t *Terminal) Confirm(question string) (bool, error) {
	answer, err := t.Ask(question + " [y/N] ")
	return strings.EqualFold(answer, "y") || strings.EqualFold(answer, "yes"), err
}

// Ask reads a line; "" at the end of the input.
func (t *Terminal) Ask(prompt string) (string, error) {
	fmt.Fprint(t.Out, prompt)
	line, err := bufio.NewReader(t.In).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("read the answer: %w", err)
	}
	return strings.TrimSpace(line), nil
}

// The colours of a diff.
const (
	red, green, cyan, bold, reset = "\x1b[31m", "\x1b[32m", "\x1b[36m", "\x1b[1m", "\x1b[0m"
)

// Diff prints a unified diff.
func (t *Terminal) Diff(text []byte) {
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		if colour := colourOf(line); t.Colour && colour != "" {
			line = colour + line + reset
		}
		fmt.Fprintln(t.Out, line)
	}
}

func colourOf(line string) string {
	switch {
	case strings.HasPrefix(line, "+++ "), strings.HasPrefix(line, "--- "):
		return bold
	case strings.HasPrefix(line, "@@"):
		return cyan
	case strings.HasPrefix(line, "+"):
		return green
	case strings.HasPrefix(line, "-"):
		return red
	}
	return ""
}
