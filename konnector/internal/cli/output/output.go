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

	"github.com/spf13/cobra"
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

var all = []Format{Table, Wide, JSON, YAML, Name}

func (f Format) String() string {
	if f == Table {
		return "table"
	}
	return string(f)
}

// IsData reports whether a format is for programs.
func (f Format) IsData() bool { return f == JSON || f == YAML }

// Flag is -o of one command.
type Flag struct {
	text    string
	formats []Format
}

// AddTo adds -o to a command, for the formats that it has: all of them when none
// is named.
func (f *Flag) AddTo(cmd *cobra.Command, formats ...Format) {
	f.formats = formats
	if len(formats) == 0 {
		f.formats = all
	}
	var names []string
	for _, format := range f.formats {
		names = append(names, format.String())
	}
	cmd.Flags().StringVarP(&f.text, "output", "o", names[0], "one of "+strings.Join(names, ", "))
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
}

// Format checks what -o says.
func (f *Flag) Format() (Format, error) { return parse(f.text, f.formats) }

// ParseFormat checks what -o says, where all formats are possible.
func ParseFormat(s string) (Format, error) { return parse(s, all) }

func parse(s string, of []Format) (Format, error) {
	f := Format(s)
	if s == Table.String() {
		f = Table
	}
	if slices.Contains(of, f) {
		return f, nil
	}
	var names []string
	for _, format := range of {
		names = append(names, format.String())
	}
	return "", usage.Errorf("-o %q: it is one of %s", s, strings.Join(names, ", "))
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
