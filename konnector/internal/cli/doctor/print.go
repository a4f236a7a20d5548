package doctor

import (
	"fmt"
	"strings"

	"gitbind.dev/konnector/internal/cli/output"
	"gitbind.dev/konnector/internal/cli/terminal"
)

var colours = map[State]terminal.Colour{OK: terminal.Green, Warn: terminal.Yellow, Fail: terminal.Red}

// show prints one line for each link, and below it what to do.
func show(t *terminal.Terminal, f output.Format, found []Finding) error {
	if f.IsData() {
		return output.Data(t.Out, f, output.Items(found))
	}
	width := 0
	for _, one := range found {
		width = max(width, len(one.Link))
	}
	about := ""
	for _, one := range found {
		if one.About != about {
			about = one.About
			fmt.Fprintln(t.Out, t.Paint(terminal.Bold, about+":"))
		}
		state := t.Paint(colours[one.State], string(one.State)) + strings.Repeat(" ", len(Skipped)-len(one.State))
		fmt.Fprintf(t.Out, "%s  %-*s  %s\n", state, width, one.Link, output.Line(one.Message))
		if one.Do != "" {
			fmt.Fprintf(t.Out, "%s  do: %s\n", strings.Repeat(" ", len(Skipped)), output.Line(one.Do))
		}
	}
	return nil
}
