// Package brief shortens what others wrote, and lists of it, to a length that a message, a page
// and a log can take. It leaves in them what could steer a terminal or a browser, of which IsHidden
// tells.
package brief

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// OneLine gives the words of a text, with a space between them.
func OneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// Cut shortens a text to so many characters, of which the last then says so.
func Cut(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most-1]) + "…"
}

// CutBytes shortens a text to so many bytes, or to a few less where they would end inside a
// character. What is shortened has a "…" behind them.
func CutBytes(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most] + "…"
}

// List joins so many texts, and says how many more there are.
func List(all []string, most int, separator string) string {
	if more := len(all) - most; more > 0 {
		all = append(all[:most:most], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(all, separator)
}

// IsHidden reports whether a character cannot be seen for what it is: control characters but line
// feed and tab, those that turn the direction of writing or have no width, those of private use, and
// the separators of lines and of paragraphs.
func IsHidden(r rune) bool {
	return r != '\n' && r != '\t' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Zl, unicode.Zp)
}
