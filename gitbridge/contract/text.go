package contract

import (
	"regexp"
	"strings"

	yaml "go.yaml.in/yaml/v3"
)

// plain matches strings that every YAML reader takes for a string without
// quotes: they start with a letter, hold nothing special, and are no word that
// some version of YAML reads as a boolean or null.
var plain = regexp.MustCompile(`^[A-Za-z/][A-Za-z0-9_./@ -]*$`)

var words = map[string]bool{
	"y": true, "n": true, "yes": true, "no": true, "on": true, "off": true,
	"true": true, "false": true, "null": true, "nan": true, "inf": true,
}

// text is a scalar that reads as this string, whichever YAML version reads it.
func text(s string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
	switch {
	case plain.MatchString(s) && !words[strings.ToLower(s)] && !strings.HasSuffix(s, " "):
	case strings.Contains(s, "\n") && literal(s):
		n.Style = yaml.LiteralStyle
	default:
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

// literal reports whether a string survives as a block scalar: printable
// ASCII lines, none empty, indented or with blanks at its end, and one newline
// at the end at most.
func literal(s string) bool {
	for line := range strings.SplitSeq(strings.TrimSuffix(s, "\n"), "\n") {
		if line == "" || line[0] == ' ' || line[len(line)-1] == ' ' {
			return false
		}
		for _, r := range line {
			if r < ' ' || r > '~' {
				return false
			}
		}
	}
	return true
}
