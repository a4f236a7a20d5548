// Package output prints what commands list and show: as tables for people, as
// JSON or YAML for programs, or by name. It is the one place that knows -o.
package output

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"gitbind.dev/konnector/internal/cli/terminal"
	"gitbind.dev/konnector/internal/cli/usage"
)

// Format is what -o names.
type Format string

// The formats. Table is the one without -o.
const (
	Table Format = ""
	Wide  Format = "wide"
	JSON  Format = "json"
	YAML  Format = "yaml"
	Name  Format = "name"
)

func (f Format) String() string {
	if f == Table {
		return "table"
	}
	return string(f)
}

// IsData reports whether a format is for programs.
func (f Format) IsData() bool { return f == JSON || f == YAML }

// All are the formats that there are.
func All() []Format { return []Format{Table, Wide, JSON, YAML, Name} }

// Names are formats as -o says them.
func Names(formats []Format) []string {
	out := make([]string, len(formats))
	for i, f := range formats {
		out[i] = f.String()
	}
	return out
}

// Parse understands what -o says, where these formats are possible.
func Parse(s string, formats []Format) (Format, error) {
	f := Format(s)
	if s == Table.String() {
		f = Table
	}
	if !slices.Contains(formats, f) {
		return "", usage.Errorf("-o %q: it is one of %s", s, strings.Join(Names(formats), ", "))
	}
	return f, nil
}

// Listing is what a command shows, in each form that -o names.
type Listing struct {
	Columns []Column
	// Rows have a cell for each column.
	Rows [][]string
	// Names are for -o name, as "<kind>.<group>/<name>".
	Names []string
	// Data is for -o json and yaml.
	Data any
	// Empty is said in the place of a table without rows.
	Empty string
}

// Print shows a listing.
func (l Listing) Print(t *terminal.Terminal, f Format) error {
	switch {
	case f.IsData():
		return Data(t.Out, f, l.Data)
	case f == Name:
		for _, name := range l.Names {
			if _, err := fmt.Fprintln(t.Out, Line(name)); err != nil {
				return err
			}
		}
		return nil
	case len(l.Rows) == 0 && l.Empty != "":
		_, err := fmt.Fprintln(t.Out, l.Empty)
		return err
	}
	return Print(t, l.Columns, l.Rows, f == Wide)
}

// Items is how lists of what is no Kubernetes object look as JSON and YAML:
// an object with one field, items, which is never null.
func Items[T any](items []T) map[string][]T {
	if items == nil {
		items = []T{}
	}
	return map[string][]T{"items": items}
}

// Line makes of a text from elsewhere one that cannot leave its cell: one line,
// without what steers a terminal.
func Line(s string) string {
	return Text(strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || isSeparator(r) }), " "))
}

// isSeparator tells whether a character could end a line, or move on in it.
func isSeparator(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp) }

// Text is what a terminal gets of a text of several lines from elsewhere.
func Text(s string) string {
	return strings.Map(func(r rune) rune {
		if isHarmful(r) {
			return -1
		}
		return r
	}, s)
}
