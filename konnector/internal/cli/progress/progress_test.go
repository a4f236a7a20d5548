package progress

import (
	"bytes"
	"testing"

	"gitbind.dev/konnector/internal/cli/terminal"
)

func TestWhatIsSaidCannotSteerATerminal(t *testing.T) {
	var out bytes.Buffer
	p := Begin(terminal.Open(nil, &out), "waiting")
	defer p.End()
	p.Say("held\x1b[2J\nReady\u202e")
	if got, want := out.String(), "  held [2J Ready\n"; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
}
