package terminal

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"gitbind.dev/konnector/internal/cli/usage"
)

func TestOnlyAYesIsAYes(t *testing.T) {
	for answer, want := range map[string]bool{"y\n": true, "YES\n": true, "\n": false, "": false, "n\n": false, "yep\n": false} {
		var out bytes.Buffer
		got, err := (&Terminal{In: strings.NewReader(answer), Out: &out}).Confirm("Go on?")
		if err != nil || got != want || out.String() != "Go on? [y/N] " {
			t.Errorf("%q: %t, %v, after %q", answer, got, err, out.String())
		}
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
	if err := (&Terminal{Out: &out}).Agree("Go on?", true); err != nil || out.Len() > 0 {
		t.Errorf("--yes asks: %q, %v", out.String(), err)
	}
	var wrong *usage.Error
	if err := (&Terminal{Out: &out}).Agree("Go on?", false); !errors.As(err, &wrong) {
		t.Errorf("a script: %v", err)
	}
	for answer, want := range map[string]error{"y\n": nil, "n\n": ErrDeclined} {
		if err := (&Terminal{In: strings.NewReader(answer), Out: &out, Interactive: true}).Agree("Go on?", false); !errors.Is(err, want) {
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
