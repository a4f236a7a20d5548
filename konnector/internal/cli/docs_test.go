package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// docs is where the documentation is.
const docs = "../../../docs"

var (
	inline = regexp.MustCompile("`[^`\n]*`")
	// aCommand is a call of the plugin up to what ends it: another command, a
	// redirection, a comment, the end of the list or of the quotes that it stands in.
	aCommand = regexp.MustCompile(`(!?)kubectl[ -]gitbind((?:\s(?:'[^']*'|"[^"]*"|[^\s|;&<>'"─,)]+))*)`)
	aQuoted  = regexp.MustCompile(`'[^']*'|"[^"]*"`)
	aComment = regexp.MustCompile(`(^|\s)#.*`)
	// aRest is how a usage says that more may follow, or that a word may be left out.
	aRest = strings.NewReplacer("...", "", "…", "", "[", "", "]", "")
)

// TestTheDocumentsCallWhatThereIs reads each command of the documentation as the plugin
// would: the command exists, takes these flags together, and as many arguments. Within a
// sentence arguments may be left out.
func TestTheDocumentsCallWhatThereIs(t *testing.T) {
	pages, err := filepath.Glob(docs + "/*.md")
	if err != nil {
		t.Fatal(err)
	}
	whole, named := 0, 0
	for _, page := range append(pages, docs+"/../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		fenced := false
		for i, line := range strings.Split(string(text), "\n") {
			at := fmt.Sprintf("%s:%d", filepath.Base(page), i+1)
			switch {
			case strings.HasPrefix(line, "```"):
				fenced = !fenced
			case fenced, strings.HasPrefix(line, "    "):
				whole += check(t, at, aComment.ReplaceAllString(line, ""), true)
			default:
				for _, code := range inline.FindAllString(line, -1) {
					named += check(t, at, strings.Trim(code, "`"), false)
				}
			}
		}
	}
	if whole < 40 || named < 15 {
		t.Errorf("only %d commands and %d in sentences were found: does the test still read the pages?", whole, named)
	}
}

// check reads the commands in a text, and says how many there are.
func check(t *testing.T, at, text string, whole bool) int {
	t.Helper()
	found := aCommand.FindAllStringSubmatch(text, -1)
	for _, m := range found {
		args := strings.Fields(aRest.Replace(aQuoted.ReplaceAllString(m[2], "quoted")))
		if m[1] == "!" {
			// Git calls it, and says what for.
			args = append(args, "get")
		}
		if err := readable(args, whole); err != nil {
			t.Errorf("%s: %s: %v", at, m[0], err)
		}
	}
	return len(found)
}

// readable says whether the plugin takes a command, without running it.
func readable(args []string, whole bool) error {
	root := root("", io.Discard)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd(args...)
	cmd, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	switch {
	case cmd == root && cmd.Flags().NArg() > 0:
		return fmt.Errorf("there is no command %s", cmd.Flags().Arg(0))
	case !whole:
		return nil
	}
	if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
		return err
	}
	if err := cmd.ValidateRequiredFlags(); err != nil {
		return err
	}
	return cmd.ValidateFlagGroups()
}
