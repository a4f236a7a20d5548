package terminal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"gitbind.dev/konnector/internal/cli/usage"
)

func TestOnlyAYesIsAYes(t *testing.T) {
	for answer, want := range map[string]bool{"y\n": true, "YES\n": true, "\n": false, "": false, "n\n": false, "yep\n": false} {
		var out bytes.Buffer
		got, err := (&Terminal{In: strings.NewReader(answer), Out: &out}).Confirm(t.Context(), "Go on?")
		if err != nil || got != want || out.String() != "Go on? [y/N] " {
			t.Errorf("%q: %t, %v, after %q", answer, got, err, out.String())
		}
	}
}

func TestAnInterruptionEndsAQuestion(t *testing.T) {
	t.Parallel()
	nobody, in := io.Pipe()
	defer in.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out bytes.Buffer
	err := (&Terminal{In: nobody, Out: &out, Interactive: true}).Agree(ctx, "Go on?", false)
	if !errors.Is(err, context.Canceled) || !strings.HasSuffix(out.String(), "\n") {
		t.Errorf("%v, after %q", err, out.String())
	}
}

func TestABufferIsNoTerminal(t *testing.T) {
	var out bytes.Buffer
	if got := Open(strings.NewReader(""), &out); got.Interactive || got.Colour || got.Width != 0 {
		t.Errorf("%+v", got)
	}
}

func TestDiffHasColoursOnATerminalOnly(t *testing.T) {
	const text = "--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n z\n"
	var plain, coloured bytes.Buffer
	(&Terminal{Out: &plain}).Diff([]byte(text))
	(&Terminal{Out: &coloured, Colour: true}).Diff([]byte(text))
	if plain.String() != text {
		t.Errorf("plain: %q", plain.String())
	}
	const want = "\x1b[1m--- a\x1b[0m\n\x1b[1m+++ b\x1b[0m\n\x1b[36m@@ -1 +1 @@\x1b[0m\n\x1b[31m-x\x1b[0m\n\x1b[32m+y\x1b[0m\n z\n"
	if coloured.String() != want {
		t.Errorf("coloured: %q", coloured.String())
	}
}

func TestGoingOnTakesAYesOrTheFlag(t *testing.T) {
	var out bytes.Buffer
	if err := (&Terminal{Out: &out}).Agree(t.Context(), "Go on?", true); err != nil || out.Len() > 0 {
		t.Errorf("--yes asks: %q, %v", out.String(), err)
	}
	var wrong *usage.Error
	if err := (&Terminal{Out: &out}).Agree(t.Context(), "Go on?", false); !errors.As(err, &wrong) {
		t.Errorf("a script: %v", err)
	}
	for answer, want := range map[string]error{"y\n": nil, "n\n": ErrDeclined} {
		if err := (&Terminal{In: strings.NewReader(answer), Out: &out, Interactive: true}).Agree(t.Context(), "Go on?", false); !errors.Is(err, want) {
			t.Errorf("%q: %v", answer, err)
		}
	}
}

func TestWaitingIsShownOnTerminalsOnly(t *testing.T) {
	var pipe, screen bytes.Buffer
	(&Terminal{Out: &pipe}).Waiting("waiting for the konnector")()
	if pipe.Len() > 0 {
		t.Errorf("a pipe gets %q", pipe.String())
	}
	stop := (&Terminal{Out: &screen, Width: 20}).Waiting("waiting for the konnector")
	stop()
	stop()
	if got, want := screen.String(), "\r\x1b[Kwaiting for the kon\r\x1b[K"; got != want {
		t.Errorf("a terminal gets %q, want %q", got, want)
	}
}

// steers is what others may write to have a terminal do, or show, what it should not.
const steers = "\x1b[2J\x1b]0;owned\x07\x1b[32m\u009b31m\u202e\u2066\u200b\u200d\ufeff\u2028\u3164\ufe0f\U000e0041\r\b\x7f\x00\x9b1m\xff"

func TestH6_NothingThatOthersWroteSteersATerminal(t *testing.T) {
	const clean = "[2J]0;owned[32m31m\ufffd1m\ufffd"
	var out bytes.Buffer
	term := Open(strings.NewReader(""), &out)
	term.Colour, term.Interactive = true, true
	for what, c := range map[string]struct {
		print func()
		want  string
	}{
		"a line":       {func() { fmt.Fprintf(term.Out, "a%sb\n", steers) }, "a" + clean + "b\n"},
		"a question":   {func() { _, _ = term.Confirm(t.Context(), steers) }, clean + " [y/N] "},
		"a diff":       {func() { term.Diff([]byte("+" + steers + "\n")) }, "\x1b[32m+" + clean + "\x1b[0m\n"},
		"colours":      {func() { fmt.Fprint(term.Out, term.Paint(Red, steers)) }, "\x1b[31m" + clean + "\x1b[0m"},
		"what is ours": {func() { fmt.Fprint(term.Out, "größe\t日本 🙂\n") }, "größe\t日本 🙂\n"},
	} {
		out.Reset()
		c.print()
		if out.String() != c.want {
			t.Errorf("%s: %q, want %q", what, out.String(), c.want)
		}
	}
	out.Reset()
	stop := (&Terminal{Out: NewWriter(&out), Width: 30}).Waiting("for " + steers + "\n\tx")
	stop()
	if shown := strings.ReplaceAll(out.String(), clearLine, ""); !strings.HasPrefix(shown, "for [2J]0;owned[32m") || strings.ContainsFunc(shown, func(r rune) bool { return !IsHarmless(r) }) {
		t.Errorf("waiting: %q", out.String())
	}
}

func TestH6_AColourOfAnotherWriterIsNone(t *testing.T) {
	var out bytes.Buffer
	theirs := &Terminal{Out: NewWriter(&out), Colour: true}
	fmt.Fprint(NewWriter(&out), theirs.Paint(Red, "x"))
	if strings.Contains(out.String(), "\x1b") {
		t.Errorf("got %q", out.String())
	}
}

func TestACharacterMayComeInParts(t *testing.T) {
	const text = "größe 日本 🙂\u202e é"
	var out bytes.Buffer
	w := NewWriter(&out)
	for i := range len(text) {
		if n, err := w.Write([]byte{text[i]}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	if want := "größe 日本 🙂 é"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
