// Package output prints objects as tables, as JSON, as YAML or by name.
package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/yaml"

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

// ParseFormat checks what -o says.
func ParseFormat(s string) (Format, error) {
	switch f := Format(s); f {
	case Table, Wide, JSON, YAML, Name:
		return f, nil
	}
	return "", usage.Errorf("-o %q: it is one of wide, json, yaml, name", s)
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

// Rows prints a table, with columns as wide as they must be and nothing at the
// ends of lines.
func Rows(w io.Writer, header []string, rows [][]string) error {
	var aligned bytes.Buffer
	tw := printers.GetNewTabWriter(&aligned)
	for _, row := range append([][]string{header}, rows...) {
		fmt.Fprintln(tw, strings.Join(row, "\t"))
	}
	if err := tw.Flush(); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	for line := range strings.Lines(aligned.String()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// Line makes of a text from elsewhere one that cannot leave its cell: one line,
// without control characters.
func Line(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || r == ' ' }), " ")
}
