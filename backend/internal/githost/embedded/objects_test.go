package embedded

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/google/go-cmp/cmp"
)

const (
	treeLine = "tree " + ones + "\n"
	whoLines = "author a <a@b> 1 +0000\ncommitter c <c@d> 2 +0000\n"
)

func TestParseCommitGivesEachFieldThatTheRulesRead(t *testing.T) {
	t.Parallel()
	h, i := plumbing.NewHash(ones), plumbing.NewHash(twos)
	const a, b = "a <a@b> 1 +0000", "c <c@d> 2 +0000"
	for _, c := range []struct {
		name, in string
		want     commit
	}{
		{"a root", treeLine + whoLines + "\nm\n", commit{Tree: h, Author: a, Committer: b, Message: "m\n"}},
		{"one parent", treeLine + "parent " + twos + "\n" + whoLines + "\nm", commit{Tree: h, Parents: []plumbing.Hash{i}, Author: a, Committer: b, Message: "m"}},
		{"a merge", treeLine + "parent " + twos + "\nparent " + ones + "\n" + whoLines + "\nm", commit{Tree: h, Parents: []plumbing.Hash{i, h}, Author: a, Committer: b, Message: "m"}},
		{"an encoding", treeLine + whoLines + "encoding UTF-7\n\nm", commit{Tree: h, Author: a, Committer: b, Encoding: "UTF-7", Message: "m"}},
		{"an encoding below a signature", treeLine + whoLines + "gpgsig x\n encoding y\nencoding UTF-7\n\nm", commit{Tree: h, Author: a, Committer: b, Encoding: "UTF-7", Message: "m"}},
		{"an encoding within a signature", treeLine + whoLines + "gpgsig x\n encoding y\n\nm", commit{Tree: h, Author: a, Committer: b, Message: "m"}},
		{"a message of two paragraphs", treeLine + whoLines + "\nm\n\nencoding x\n", commit{Tree: h, Author: a, Committer: b, Message: "m\n\nencoding x\n"}},
		{"an empty message", treeLine + whoLines + "\n", commit{Tree: h, Author: a, Committer: b}},
		{"no message", treeLine + whoLines, commit{Tree: h, Author: a, Committer: b}},
		{"no message and an encoding", treeLine + whoLines + "encoding UTF-7\n", commit{Tree: h, Author: a, Committer: b, Encoding: "UTF-7"}},
	} {
		got, err := parseCommit([]byte(c.in))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", c.name, diff)
		}
	}
}

func TestParseCommitRefusesASecondEncoding(t *testing.T) {
	t.Parallel()
	for _, lines := range []string{"encoding UTF-8\nencoding UTF-7\n", "encoding UTF-7\nencoding UTF-8\n", "encoding UTF-8\nencoding UTF-8\n", "encoding UTF-8\nx y\nencoding \n"} {
		_, err := parseCommit([]byte(treeLine + whoLines + lines + "\nm"))
		if !errors.Is(err, errObject) || !strings.Contains(err.Error(), "second encoding") {
			t.Errorf("%q: error %v, want a second encoding", lines, err)
		}
	}
}

func TestParseCommitTakesOneMebibyteOfHeaders(t *testing.T) {
	t.Parallel()
	// head is n bytes of headers, without the line end that closes them.
	head := func(n int) string {
		s := treeLine + whoLines + "gpgsig "
		return s + strings.Repeat("x", n-len(s))
	}
	for _, c := range []struct {
		name, in string
		ok       bool
	}{
		{"the most", head(1<<20) + "\n\nm", true},
		{"the most, with a long message", head(1<<20) + "\n\n" + strings.Repeat("m", 1<<20), true},
		{"the most, without a message", head(1<<20) + "\n", true},
		{"one more", head(1<<20+1) + "\n\nm", false},
		{"one more, without a message", head(1<<20+1) + "\n", false},
	} {
		_, err := parseCommit([]byte(c.in))
		if (err == nil) != c.ok || err != nil && (!errors.Is(err, errObject) || !strings.Contains(err.Error(), "1048577 bytes of headers, at most 1048576")) {
			t.Errorf("%s: error %v, want ok=%v", c.name, err, c.ok)
		}
	}
}

func TestParseTreeReadsOneFormOnly(t *testing.T) {
	t.Parallel()
	h, i := plumbing.NewHash(ones), plumbing.NewHash(twos)
	entry := func(text string, h plumbing.Hash) string { return text + "\x00" + string(h[:]) }
	for _, c := range []struct {
		name, in string
		want     []treeEntry
		fails    string
	}{
		{name: "empty", in: ""},
		{name: "a file", in: entry("100644 a", h), want: []treeEntry{{"100644", "a", h}}},
		{name: "a file and two folders", in: entry("100644 a", h) + entry("40000 bindings", i) + entry("40000 c", h),
			want: []treeEntry{{"100644", "a", h}, {modeDir, bindingsDir, i}, {modeDir, "c", h}}},
		{name: "spaces in a name", in: entry("100644  a b", h), want: []treeEntry{{"100644", " a b", h}}},
		{name: "an entry of the least bytes", in: entry("1 a", plumbing.ZeroHash), want: []treeEntry{{"1", "a", plumbing.ZeroHash}}},
		{name: "no end of a name", in: "100644 a", fails: "ends within an entry"},
		{name: "no hash", in: "100644 a\x00", fails: "ends within an entry"},
		{name: "a hash that is one byte short", in: strings.TrimSuffix(entry("100644 a", h), "\x11"), fails: "ends within an entry"},
		{name: "a second hash that is one byte short", in: entry("100644 a", h) + strings.TrimSuffix(entry("100644 b", h), "\x11"), fails: "ends within an entry"},
		{name: "a byte after the last hash", in: entry("100644 a", h) + "1", fails: "ends within an entry"},
		{name: "neither a mode nor a name", in: entry("", h), fails: `tree entry ""`},
		{name: "no space", in: entry("100644", h), fails: `tree entry "100644"`},
		{name: "no mode", in: entry(" a", h), fails: `tree entry " a"`},
		{name: "no name", in: entry("100644 ", h), fails: `tree entry "100644 "`},
		{name: "a path as a name", in: entry("100644 bindings/a", h), fails: `tree entry "100644 bindings/a"`},
		{name: "a bad entry after a good one", in: entry("100644 a", h) + entry("40000 /", h), fails: `tree entry "40000 /"`},
	} {
		got, err := parseTree([]byte(c.in))
		if c.fails != "" {
			if !errors.Is(err, errObject) || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%s: error %v, want %q", c.name, err, c.fails)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", c.name, diff)
		}
	}
}
