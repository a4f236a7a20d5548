package brief_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"gitbind.dev/gitbridge/brief"
)

func TestATextIsShortened(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ got, want string }{
		"one line":                                {brief.OneLine(" a\n\tb  c "), "a b c"},
		"characters that fit":                     {brief.Cut("äöü", 3), "äöü"},
		"a character more":                        {brief.Cut("äöüß", 3), "äö…"},
		"bytes that fit":                          {brief.CutBytes("äö", 4), "äö"},
		"a byte more":                             {brief.CutBytes("äöx", 4), "äö…"},
		"bytes that end between characters":       {brief.CutBytes("äöü", 4), "äö…"},
		"bytes that end inside a character":       {brief.CutBytes("äöü", 3), "ä…"},
		"bytes that end before a whole character": {brief.CutBytes("€€", 2), "…"},
		"bytes that are no UTF-8 before the end":  {brief.CutBytes("\xffabc", 2), "\xffa…"},
		"bytes none of which begins a character":  {brief.CutBytes("\x80\x80\x80", 2), "…"},
		"a list of nothing":                       {brief.List(nil, 2, ", "), ""},
		"a list that fits":                        {brief.List([]string{"a", "b"}, 2, ", "), "a, b"},
		"a list that is longer":                   {brief.List([]string{"a", "b", "c", "d"}, 2, "; "), "a; b; and 2 more"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", name, c.got, c.want)
		}
	}
}

func TestAListIsLeftAsItIs(t *testing.T) {
	t.Parallel()
	all := []string{"a", "b", "c"}
	if brief.List(all, 1, ", "); strings.Join(all, "") != "abc" {
		t.Errorf("it became %q", all)
	}
}

func TestWhatIsCutIsTheBeginningOfAText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s, most := rapid.String().Draw(t, "s"), rapid.IntRange(1, 20).Draw(t, "most")
		cut, ofBytes := brief.Cut(s, most), brief.CutBytes(s, most)
		if n := utf8.RuneCountInString(cut); n > most || cut != s && n != most {
			t.Errorf("%q has %d characters", cut, n)
		}
		beginning, isCut := strings.CutSuffix(ofBytes, "…")
		if ofBytes != s && (!isCut || len(beginning) > most || len(beginning) <= most-utf8.UTFMax || !utf8.ValidString(beginning)) {
			t.Errorf("%q", ofBytes)
		}
		for _, got := range []string{cut, ofBytes} {
			if got != s && !strings.HasPrefix(s, strings.TrimSuffix(got, "…")) {
				t.Errorf("%q", got)
			}
		}
	})
}

func TestWhatCannotBeSeenIsKnown(t *testing.T) {
	t.Parallel()
	for _, r := range "\x00\x1b\r\x7f\u0085\u00ad\u200b\u200d\u202e\u2028\u2029\u2066\ue000\ufeff" {
		if !brief.IsHidden(r) {
			t.Errorf("%U can be seen", r)
		}
	}
	for _, r := range " \n\taé中\u00a0\ufe0f\ufffd❤" {
		if brief.IsHidden(r) {
			t.Errorf("%U cannot be seen", r)
		}
	}
}
