package output

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"gitbind.dev/konnector/internal/cli/terminal"
)

// Column is one column of a table.
type Column struct {
	Name string
	// Wide columns are shown with -o wide only.
	Wide bool
	// Colour says how a cell looks on a terminal; nil for plain.
	Colour func(cell string) terminal.Colour
}

// Columns are plain columns of these names.
func Columns(names ...string) []Column {
	out := make([]Column, len(names))
	for i, name := range names {
		out[i].Name = name
	}
	return out
}

// Good colours a condition that should be true.
func Good(cell string) terminal.Colour {
	switch cell {
	case "True":
		return terminal.Green
	case "False":
		return terminal.Red
	case "Unknown":
		return terminal.Yellow
	}
	return terminal.Plain
}

// Bad colours a condition that should be false.
func Bad(cell string) terminal.Colour {
	if cell == "True" {
		return terminal.Red
	}
	return terminal.Plain
}

const (
	gap = "   "
	// leastLast is how narrow the last column may become before lines are left
	// to the terminal.
	leastLast = 24
)

// Print prints a table, with columns as wide as they must be and nothing at the
// ends of lines. On a terminal, what does not fit into the last column goes on in
// the next line below it; a file or a program gets one line for each row.
func Print(t *terminal.Terminal, columns []Column, rows [][]string, wide bool) error {
	return NewGrowing(t, columns, wide).Print(rows)
}

// Growing is a table that gets further rows while it is watched. Its columns stay
// as wide as the first rows need.
type Growing struct {
	terminal *terminal.Terminal
	columns  []Column
	wide     bool
	widths   []int
}

// NewGrowing is a table without rows.
func NewGrowing(t *terminal.Terminal, columns []Column, wide bool) *Growing {
	return &Growing{terminal: t, columns: columns, wide: wide}
}

// Print prints rows, after the heading if they are the first.
func (g *Growing) Print(rows [][]string) error {
	columns, rows := visible(g.columns, rows, g.wide)
	for _, row := range rows {
		for i := range row {
			row[i] = cell(row[i])
		}
	}
	var b strings.Builder
	if g.widths == nil {
		g.measure(columns, rows)
		head := make([]string, len(columns))
		for i, c := range columns {
			head[i] = c.Name
		}
		g.write(&b, nil, head)
	}
	last := len(columns) - 1
	before := 0
	for _, w := range g.widths[:max(last, 0)] {
		before += w + len(gap)
	}
	for _, row := range rows {
		rest := fold(row[last], g.terminal.Width-before)
		g.write(&b, columns, append(slices.Clone(row[:last]), rest[0]))
		for _, line := range rest[1:] {
			fmt.Fprintln(&b, strings.Repeat(" ", before)+line)
		}
	}
	_, err := io.WriteString(g.terminal.Out, b.String())
	return err
}

func (g *Growing) measure(columns []Column, rows [][]string) {
	g.widths = make([]int, len(columns))
	for i, c := range columns {
		g.widths[i] = utf8.RuneCountInString(c.Name)
		for _, row := range rows {
			g.widths[i] = max(g.widths[i], utf8.RuneCountInString(row[i]))
		}
	}
}

// cell is a text that cannot leave its cell. Spaces stay: they may indent it.
func cell(text string) string {
	return Text(strings.Map(func(r rune) rune {
		if isSeparator(r) {
			return ' '
		}
		return r
	}, text))
}

// visible leaves out what is for -o wide.
func visible(columns []Column, rows [][]string, wide bool) ([]Column, [][]string) {
	var shown []Column
	out := make([][]string, len(rows))
	for i, c := range columns {
		if c.Wide && !wide {
			continue
		}
		shown = append(shown, c)
		for r, row := range rows {
			out[r] = append(out[r], row[i])
		}
	}
	return shown, out
}

// write writes one line. Without columns it is the heading.
func (g *Growing) write(b *strings.Builder, columns []Column, cells []string) {
	filled := len(cells)
	for filled > 0 && cells[filled-1] == "" {
		filled--
	}
	for i, cell := range cells[:filled] {
		colour := terminal.Plain
		switch {
		case columns == nil:
			colour = terminal.Bold
		case columns[i].Colour != nil:
			colour = columns[i].Colour(cell)
		}
		b.WriteString(g.terminal.Paint(colour, cell))
		if i < filled-1 {
			b.WriteString(strings.Repeat(" ", max(g.widths[i]-utf8.RuneCountInString(cell), 0)) + gap)
		}
	}
	b.WriteByte('\n')
}

// fold breaks a text at spaces so that it fits into a width, if that is enough to
// be read; a word that is longer stays whole.
func fold(text string, width int) []string {
	if width < leastLast || utf8.RuneCountInString(text) <= width {
		return []string{text}
	}
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
