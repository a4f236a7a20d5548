package output

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gitbind.dev/konnector/internal/cli/terminal"
	"gitbind.dev/konnector/internal/cli/usage"
)

func listing() Listing {
	return Listing{
		Columns: []Column{{Name: "CLAIM"}, {Name: "READY", Colour: Good}, {Name: "HELD", Wide: true, Colour: Bad}, {Name: "MESSAGE"}},
		Rows: [][]string{
			{"team-a/orders", "True", "False", ""},
			{"team-b/größe", "False", "True", "the plan is not known to anybody here"},
		},
		Names: []string{"database.example.com/orders", "database.example.com/größe"},
		Data:  Items([]string{"orders", "größe"}),
		Empty: "There is nothing.",
	}
}

func TestEachFormatOfAListing(t *testing.T) {
	for format, want := range map[Format]string{
		Table: `CLAIM           READY   MESSAGE
team-a/orders   True
team-b/größe    False   the plan is not known to anybody here
`,
		Wide: `CLAIM           READY   HELD    MESSAGE
team-a/orders   True    False
team-b/größe    False   True    the plan is not known to anybody here
`,
		Name: "database.example.com/orders\ndatabase.example.com/größe\n",
		YAML: "items:\n- orders\n- größe\n",
		JSON: "{\n    \"items\": [\n        \"orders\",\n        \"größe\"\n    ]\n}\n",
	} {
		var got bytes.Buffer
		if err := listing().Print(terminal.Open(nil, &got), format); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", format, diff)
		}
	}
}

func TestAnEmptyListingIsSaidToPeopleAndAnEmptyListToPrograms(t *testing.T) {
	for format, want := range map[Format]string{Table: "There is nothing.\n", Name: "", YAML: "items: []\n"} {
		var got bytes.Buffer
		l := Listing{Columns: Columns("A"), Data: Items[string](nil), Empty: "There is nothing."}
		if err := l.Print(terminal.Open(nil, &got), format); err != nil || got.String() != want {
			t.Errorf("%s: %q, %v", format, got.String(), err)
		}
	}
}

func TestColoursAndFoldingAreForTerminals(t *testing.T) {
	var got bytes.Buffer
	l := listing()
	if err := l.Print(&terminal.Terminal{Out: &got, Colour: true, Width: 50}, Table); err != nil {
		t.Fatal(err)
	}
	const want = "\x1b[1mCLAIM\x1b[0m           \x1b[1mREADY\x1b[0m   \x1b[1mMESSAGE\x1b[0m\n" +
		"team-a/orders   \x1b[32mTrue\x1b[0m\n" +
		"team-b/größe    \x1b[31mFalse\x1b[0m   the plan is not known to\n" +
		"                        anybody here\n"
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	got.Reset()
	if err := l.Print(&terminal.Terminal{Out: &got, Width: 30}, Table); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(got.String(), "\n"); lines != 3 {
		t.Errorf("a narrow terminal breaks lines itself, but got:\n%s", got.String())
	}
}

func TestFormatsOfACommand(t *testing.T) {
	formats := []Format{Table, JSON}
	for text, want := range map[string]Format{"table": Table, "": Table, "json": JSON} {
		if f, err := Parse(text, formats); f != want || err != nil {
			t.Errorf("%q: %q, %v", text, f, err)
		}
	}
	_, err := Parse("wide", formats)
	var wrong *usage.Error
	if !errors.As(err, &wrong) || err.Error() != `-o "wide": it is one of table, json` {
		t.Errorf("a format that the command does not have: %v", err)
	}
}

func TestTextsFromElsewhereCannotSteerATerminal(t *testing.T) {
	const hostile = "a\x1b[2Jb\r\n\tc\u009b1md\u202e\u200b\ufeffe"
	if got, want := Line(hostile), "a [2Jb c 1mde"; got != want {
		t.Errorf("Line: %q, want %q", got, want)
	}
	if got, want := Text(hostile), "a[2Jb\n\tc1mde"; got != want {
		t.Errorf("Text: %q, want %q", got, want)
	}
}
