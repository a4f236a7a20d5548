package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf16"

	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"

	"gitbind.dev/konnector/internal/cli/terminal"
)

// Data prints a value as JSON or YAML: exactly, and with what could steer a terminal
// as escapes.
func Data(w io.Writer, f Format, v any) error {
	data, err := json.MarshalIndent(v, "", "    ")
	switch {
	case err != nil:
	case f == YAML:
		data, err = toYAML(data)
	default:
		data = append([]byte(escape(string(data), jsonEscape)), '\n')
	}
	if err != nil {
		return fmt.Errorf("print: %w", err)
	}
	_, err = w.Write(data)
	return err
}

// escape writes what is not harmless as escapes. It is right where all of that is in
// quoted strings.
func escape(text string, as func(r rune) string) string {
	if !strings.ContainsFunc(text, isHarmful) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if isHarmful(r) {
			b.WriteString(as(r))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func isHarmful(r rune) bool { return !terminal.IsHarmless(r) }

func jsonEscape(r rune) string {
	var b strings.Builder
	for _, unit := range utf16.Encode([]rune{r}) {
		fmt.Fprintf(&b, `\u%04x`, unit)
	}
	return b.String()
}

// toYAML gives JSON as YAML. Its strings are quoted only where they must be, which
// for YAML is not where one is harmful.
func toYAML(data []byte) ([]byte, error) {
	// The parser takes no control characters, but as escapes, in YAML's form.
	data, err := yaml.JSONToYAML([]byte(escape(string(data), yamlEscape)))
	if err != nil || !strings.ContainsFunc(string(data), isHarmful) {
		return data, err
	}
	var doc yamlv3.Node
	if err := yamlv3.Unmarshal(data, &doc); err != nil {
		return nil, err
	}
	quote(&doc)
	var b bytes.Buffer
	e := yamlv3.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(&doc); err != nil {
		return nil, err
	}
	return []byte(escape(b.String(), yamlEscape)), e.Close()
}

// quote quotes each string that is not harmless.
func quote(n *yamlv3.Node) {
	if n.Kind == yamlv3.ScalarNode && strings.ContainsFunc(n.Value, isHarmful) {
		n.Style = yamlv3.DoubleQuotedStyle
	}
	for _, c := range n.Content {
		quote(c)
	}
}

func yamlEscape(r rune) string {
	if r > 0xffff {
		return fmt.Sprintf(`\U%08X`, r)
	}
	return fmt.Sprintf(`\u%04X`, r)
}
