package terminal

import (
	"crypto/rand"
	"io"
	"os"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// Writer is the one way to a person's terminal: it drops what steers a terminal, or
// changes how other characters look, no matter who wrote it. Colours are the exception:
// they are written as marks, which no text from elsewhere can have, as each Writer makes
// its own.
//
// What is no valid UTF-8 becomes U+FFFD. A pipe or a file gets the same, as it may be
// shown on a terminal later.
type Writer struct {
	to io.Writer
	// mark stands before the parameters of a colour.
	mark string

	mu sync.Mutex
	// rest is the beginning of a character whose end is not written yet.
	rest string
}

// NewWriter is a Writer to w; w itself if it is one.
func NewWriter(w io.Writer) *Writer {
	if already, ok := w.(*Writer); ok {
		return already
	}
	return &Writer{to: w, mark: escape + rand.Text() + ";"}
}

// escape begins what steers a terminal.
const escape = "\x1b"

// Write writes what is harmless of p.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := w.rest + string(p)
	text, w.rest = cutIncomplete(text)
	var b strings.Builder
	for text != "" {
		if after, ok := strings.CutPrefix(text, w.mark); ok {
			colour, rest, _ := strings.Cut(after, "m")
			b.WriteString(escape + "[" + colour + "m")
			text = rest
			continue
		}
		r, size := utf8.DecodeRuneInString(text)
		if text = text[size:]; IsHarmless(r) {
			b.WriteRune(r)
		}
	}
	if _, err := io.WriteString(w.to, b.String()); err != nil {
		return 0, err
	}
	return len(p), nil
}

// cutIncomplete cuts off the beginning of a character at the end of a text.
func cutIncomplete(text string) (whole, rest string) {
	for i := len(text) - 1; i >= 0 && i >= len(text)-utf8.UTFMax; i-- {
		if utf8.RuneStart(text[i]) {
			if utf8.FullRuneInString(text[i:]) {
				return text, ""
			}
			return text[:i], text[i:]
		}
	}
	return text, ""
}

// paint marks a text with a colour.
func (w *Writer) paint(c Colour, text string) string {
	marked := func(c string) string { return w.mark + strings.TrimPrefix(c, escape+"[") }
	return marked(string(c)) + text + marked(reset)
}

// IsHarmless reports whether a character neither steers a terminal, as C0 and C1
// controls do, nor changes how others look without a look of its own: the order in
// which they are shown, whether two words are one, where a line ends.
func IsHarmless(r rune) bool {
	if r < utf8.RuneSelf {
		return r >= ' ' && r != '\x7f' || r == '\n' || r == '\t'
	}
	return !unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// IsTerminal reports whether what is read from, or written to, is a person's terminal.
func IsTerminal(v any) bool {
	f, ok := file(v)
	return ok && term.IsTerminal(int(f.Fd()))
}

func file(v any) (*os.File, bool) {
	if w, ok := v.(*Writer); ok {
		v = w.to
	}
	f, ok := v.(*os.File)
	return f, ok
}
