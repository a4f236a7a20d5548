package terminal

import (
	"bytes"
	"strings"
	"testing"
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
	if got := Open(strings.NewReader(""), &out); got.Interactive || got.Colour {
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
