package log

import (
	"testing"

	"gitbind.dev/konnector/internal/cli/output"
)

func TestApprovalsAreAskedForWhereTheyAreShown(t *testing.T) {
	for _, c := range []struct {
		name string
		in   Input
		want bool
	}{
		{"table", Input{Format: output.Table}, true},
		{"wide", Input{Format: output.Wide}, true},
		{"patch", Input{Format: output.Table, Patch: true}, true},
		{"JSON", Input{Format: output.JSON}, true},
		{"YAML", Input{Format: output.YAML}, true},
		{"names", Input{Format: output.Name}, false},
		{"oneline", Input{Format: output.Table, Oneline: true}, false},
	} {
		if got := c.in.showsApprovals(); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}
