// Package terminal asks people on a terminal, shows them colours, and knows when
// there is none. It asks nothing of scripts: what they leave open is an error
// that names the flag. Colours and widths are for terminals only; a pipe or a
// file gets neither.
package terminal

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"gitbind.dev/konnector/internal/cli/usage"
)

// Terminal is where a command reads and writes.
type Terminal struct {
	In io.Reader
	// Out is a Writer, when it is made by Open.
	Out io.Writer
	// Interactive says that a person is there to answer.
	Interactive bool
	// Colour says that Out shows colours.
	Colour bool
	// Width of Out in characters; 0 where there is none.
	Width int
}

// Open looks whether in and out are a terminal.
func Open(in io.Reader, out io.Writer) *Terminal {
	t := &Terminal{In: in, Out: NewWriter(out)}
	f, ok := file(out)
	if !ok || !IsTerminal(f) {
		return t
	}
	t.Interactive = IsTerminal(in)
	// https://no-color.org: when it is there and not empty.
	t.Colour = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	if width, _, err := term.GetSize(int(f.Fd())); err == nil {
		t.Width = width
	}
	return t
}

// ErrDeclined says that a person did not want to go on.
var ErrDeclined = errors.New("nothing was changed")

// Agree lets a command go on that changes something: because --yes was given,
// or because a person says so. The error is ErrDeclined when they do not.
func (t *Terminal) Agree(ctx context.Context, question string, yes bool) error {
	if yes {
		return nil
	}
	if !t.Interactive {
		return usage.Errorf("nobody is there to ask: add --yes")
	}
	ok, err := t.Confirm(ctx, question)
	if err == nil && !ok {
		err = ErrDeclined
	}
	return err
}

// Confirm asks for a yes. Anything else, and the end of the input, is a no.
func (t *Terminal) Confirm(ctx context.Context, question string) (bool, error) {
	answer, err := t.Ask(ctx, question+" [y/N] ")
	return strings.EqualFold(answer, "y") || strings.EqualFold(answer, "yes"), err
}

// Ask reads a line; "" at the end of the input. It waits no longer than the context: what is
// typed later is lost.
func (t *Terminal) Ask(ctx context.Context, prompt string) (string, error) {
	fmt.Fprint(t.Out, prompt)
	var line string
	read := make(chan error, 1)
	go func() {
		var err error
		line, err = bufio.NewReader(t.In).ReadString('\n')
		read <- err
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(t.Out)
		return "", context.Cause(ctx)
	case err := <-read:
		if err != nil && !errors.Is(err, io.EOF) {
			return "", fmt.Errorf("read the answer: %w", err)
		}
	}
	return strings.TrimSpace(line), nil
}
