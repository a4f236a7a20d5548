package object

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func treeOf(entries ...string) []byte {
	var b []byte
	for _, e := range entries {
		mode, name, _ := strings.Cut(e, " ")
		b = append(b, mode+" "+name+"\x00"...)
		b = append(b, bytes.Repeat([]byte{7}, 20)...)
	}
	return b
}

func TestDecodeTreeRefusesWhatCanBeReadInTwoWays(t *testing.T) {
	for name, data := range map[string][]byte{
		"not in order":                     treeOf("100644 b", "100644 a"),
		"file twice":                       treeOf("100644 a", "100644 a"),
		"file and folder":                  treeOf("100644 a", "40000 a"),
		"file and folder, others between":  treeOf("100644 a", "100644 a-b", "100644 a.b", "40000 a"),
		"slash in a name":                  treeOf("100644 a/b"),
		"no name":                          treeOf("100644 "),
		"no mode":                          treeOf(" a"),
		"unknown mode":                     treeOf("170000 a"),
		"mode that is no number":           treeOf("1x0644 a"),
		"hash cut off":                     treeOf("100644 a")[:20],
		"no end of name":                   []byte("100644 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
		"only a mode":                      []byte("100644"),
		"second entry cut off":             append(treeOf("100644 a"), "100644"...),
		"folder before the file sorted so": treeOf("40000 a", "100644 a.b"),
	} {
		if entries, err := DecodeTree(data); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v, %v", name, entries, err)
		}
	}
}

func TestDecodeTreeKeepsOddNamesForOthersToRefuse(t *testing.T) {
	entries, err := DecodeTree(treeOf("100664 ..", "040000 .git", "120000 a b", "160000 s", "100755 x\n"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name)
	}
	if diff := cmp.Diff([]string{"..", ".git", "a b", "s", "x\n"}, got); diff != "" {
		t.Error(diff)
	}
	if entries[0].Mode != ModeRegular || entries[1].Mode != ModeFolder {
		t.Errorf("modes %o %o", entries[0].Mode, entries[1].Mode)
	}
}

func FuzzDecodeTree(f *testing.F) {
	f.Add(treeOf("100644 a", "100644 a.b", "40000 b"))
	f.Add(treeOf("100644 a", "40000 a"))
	f.Add([]byte("100644"))
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, err := DecodeTree(data)
		if err != nil {
			return
		}
		// A second reading of what we would write is the same.
		var again []byte
		for _, e := range entries {
			again = appendEntry(again, e.Name, e.Mode, e.ID)
		}
		second, err := DecodeTree(again)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(entries, second); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestCommitIsReadAsWritten(t *testing.T) {
	when := time.Unix(1790000000, 0).UTC()
	c := CommitData{
		Tree:      EmptyTree,
		Parents:   []ID{{1}, {2}},
		Author:    Person{"A U Thor", "author@example.org", when},
		Committer: Person{"C O Mitter", "committer@example.org", when.Add(time.Second)},
		Message:   "subject\n\nbody\n\nKey: value\n",
	}
	got, err := DecodeCommit(c.Encode().Data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(c, got); diff != "" {
		t.Error(diff)
	}
}

func TestNamesCannotAddLinesToACommit(t *testing.T) {
	c := CommitData{
		Tree:   EmptyTree,
		Author: Person{Name: "x <y>\nparent 1", Email: "a@b>\ncommitter z"},
	}
	got, err := DecodeCommit(c.Encode().Data)
	if err != nil {
		t.Fatal(err)
	}
	if got.Author.Name != "x yparent 1" || got.Author.Email != "a@bcommitter z" || got.Committer.Name != "unknown" || len(got.Parents) > 0 {
		t.Errorf("%+v", got)
	}
}

func TestDecodeCommitReadsOthersCommits(t *testing.T) {
	data := "tree " + EmptyTree.String() + "\n" +
		"parent " + EmptyTree.String() + "\n" +
		"author Somebody<x@y> 12 +0130\n" +
		"committer no address at all\n" +
		"gpgsig -----BEGIN\n tree 00\n \n parent 00\n" +
		"encoding latin1\n" +
		"\nmessage\n\ntree is mentioned\n"
	c, err := DecodeCommit([]byte(data))
	if err != nil {
		t.Fatal(err)
	}
	_, zone := c.Author.When.Zone()
	if c.Message != "message\n\ntree is mentioned\n" || len(c.Parents) != 1 || c.Author.Email != "x@y" || c.Author.Name != "Somebody" ||
		c.Author.When.Unix() != 12 || zone != 5400 || c.Committer.Name != "no address at all" {
		t.Errorf("%+v", c)
	}
}

func TestDecodeCommitRefuses(t *testing.T) {
	tree, parent := "tree "+EmptyTree.String()+"\n", "parent "+EmptyTree.String()+"\n"
	for name, data := range map[string]string{
		"nothing":              "",
		"no tree":              "author x <y> 1 +0000\n\n",
		"parent before tree":   parent + tree + "\n",
		"second tree":          tree + tree + "\n",
		"parent after author":  tree + "author x <y> 1 +0000\n" + parent + "\n",
		"short tree":           "tree 12\n\n",
		"tree of other digits": "tree " + strings.Repeat("x", 40) + "\n\n",
		"short parent":         tree + "parent 12\n\n",
	} {
		if c, err := DecodeCommit([]byte(data)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
}

func FuzzDecodeCommit(f *testing.F) {
	f.Add([]byte("tree " + EmptyTree.String() + "\nauthor x <y> 1 +0000\n\nmessage"))
	f.Add([]byte("tree " + EmptyTree.String() + "\nparent " + EmptyTree.String() + "\ncommitter <> 99999999999999999999 -9999\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := DecodeCommit(data)
		if err != nil {
			return
		}
		again, err := DecodeCommit(c.Encode().Data)
		if err != nil {
			t.Fatal(err)
		}
		if again.Tree != c.Tree || len(again.Parents) != len(c.Parents) || again.Message != c.Message {
			t.Fatalf("%+v became %+v", c, again)
		}
	})
}
