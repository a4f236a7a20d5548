// Package output prints what commands list and show: as tables for people, as
// JSON or YAML for programs, or by name. It is the one place that knows -o.
package output

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"sigs.k8s.io/yaml"

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
			if _, err := fmt.Fprintln(t.Out, name); err != nil {
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

// Data prints a value as JSON or YAML.
func Data(w io.Writer, f Format, v any) error {
	var data []byte
	var err error
	if f == YAML {
		data, err = yaml.Marshal(v)
	} else {
		data, err = json.MarshalIndent(v, "", "    ")
		data = append(data, '\n')
	}
	if err != nil {
		return fmt.Errorf("print: %w", err)
	}
	_, err = w.Write(data)
	return err
}

// Line makes of a text from elsewhere one that cannot leave its cell: one line,
// without control characters.
func Line(s string) string {
	return strings.Join(strings.FieldsFunc(strings.Map(plain, s), func(r rune) bool { return r == ' ' || unicode.IsControl(r) }), " ")
}

// Text makes a text of several lines from elsewhere harmless to a terminal: it
// keeps line ends and tabs, and no other control characters.
func Text(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return plain(r)
	}, s)
}

// plain drops what has no look of its own, but changes that of other
// characters: the order in which they are shown, or whether two words are one.
func plain(r rune) rune {
	if unicode.Is(unicode.Cf, r) {
		return -1
	}
	return r
}
