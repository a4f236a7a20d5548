package branch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"gitbind.dev/gitbridge/store"
)

func files(s *store.Snapshot) map[string]string {
	m := map[string]string{}
	for e := range s.List("") {
		data, _ := s.Read(e.Path)
		m[e.Path] = string(data)
	}
	return m
}

// Whatever edits travel together, by one author or many: the tree is that of
// the edits one after the other, each path has its values in the order in
// which they were written, and nobody gets a commit with another one's change.
func TestABatchIsTheEditsOneAfterTheOther(t *testing.T) {
	failed := errors.New("failed")
	rapid.Check(t, func(t *rapid.T) {
		c := New(nil, Options{Now: func() time.Time { return time.Unix(1, 0) }})
		base := &store.Snapshot{}
		for range 2 {
			want := files(base)
			history := map[string][]string{}
			writers := map[string]string{}
			var batch []*pending
			failures := 0
			for i := range rapid.IntRange(1, 12).Draw(t, "edits") {
				author := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "author")
				paths := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"x", "y", "x/1", "x/2", "z/1", "z/1/2"}), 1, 2, rapid.ID).Draw(t, "paths")
				content := fmt.Sprintf("%s%d", author, i)
				fails := rapid.IntRange(0, 4).Draw(t, "fails") == 0
				removes := rapid.IntRange(0, 3).Draw(t, "removes") == 0
				batch = append(batch, &pending{ctx: context.Background(), done: make(chan answer, 1), edit: store.Edit{
					Author:  store.Signature{Name: author},
					Subject: content,
					Apply: func(tree *store.Tree) error {
						before := maps.Clone(want)
						for _, path := range paths {
							var err error
							if removes {
								err = tree.Remove(path)
								delete(want, path)
							} else if err = tree.Write(path, []byte(content)); err == nil {
								want[path] = content
							}
							if err != nil {
								want = before
								failures++
								return err
							}
						}
						if fails {
							want = before
							failures++
							return failed
						}
						for _, path := range paths {
							if !removes {
								history[path] = append(history[path], content)
								writers[content] = author
							}
						}
						return nil
					},
				}})
			}
			push, going := c.prepare(base, batch)
			if len(going)+failures != len(batch) {
				t.Fatalf("%d go on, %d failed, of %d", len(going), failures, len(batch))
			}
			for _, s := range push.Commits {
				author := s.Commit().Author.Name
				for change := range store.Diff(base, s, "") {
					if change.New == nil {
						continue
					}
					data, _ := s.Read(change.Path)
					content := string(data)
					i := slices.Index(history[change.Path], content)
					if i < 0 {
						t.Fatalf("%s is %q after one of %q", change.Path, content, history[change.Path])
					}
					history[change.Path] = history[change.Path][i+1:]
					if writers[content] != author {
						t.Fatalf("%s of %s is in a commit of %s", content, writers[content], author)
					}
				}
				if parents := s.Commit().Parents; base.Head() != "" && !slices.Equal(parents, []store.Hash{base.Head()}) {
					t.Fatalf("parents %v", parents)
				}
				base = s
			}
			if diff := cmp.Diff(want, files(base)); diff != "" {
				t.Fatal(diff)
			}
		}
	})
}

// A file stands where a folder was only after all who have emptied that, in whichever order they came.
func TestAFileTakesThePlaceOfAFolderThatAnotherAuthorHasEmptied(t *testing.T) {
	c := New(nil, Options{})
	edit := func(author string, apply func(*store.Tree) error) *pending {
		return &pending{ctx: context.Background(), done: make(chan answer, 1), edit: store.Edit{Author: store.Signature{Name: author}, Apply: apply}}
	}
	write := func(author, path string) *pending {
		return edit(author, func(t *store.Tree) error { return t.Write(path, nil) })
	}
	remove := func(author, path string) *pending {
		return edit(author, func(t *store.Tree) error { return t.Remove(path) })
	}
	first, _ := c.prepare(&store.Snapshot{}, []*pending{write("a", "x/1")})
	push, going := c.prepare(first.Commits[0], []*pending{write("b", "x/2"), remove("a", "x/1"), remove("b", "x/2"), write("b", "x")})
	if len(going) != 4 {
		t.Fatalf("%d edits of 4 went on", len(going))
	}
	if diff := cmp.Diff(map[string]string{"x": ""}, files(push.Commits[len(push.Commits)-1])); diff != "" {
		t.Error(diff)
	}
}

func TestAuthorsWhoDoNotMeetGetOneCommitEach(t *testing.T) {
	c := New(nil, Options{})
	var batch []*pending
	for i := range 300 {
		batch = append(batch, &pending{ctx: context.Background(), done: make(chan answer, 1), edit: store.Edit{
			Author: store.Signature{Name: fmt.Sprint("author ", i%3)},
			Apply:  func(t *store.Tree) error { return t.Write(fmt.Sprint("ns/", i), nil) },
		}})
	}
	push, _ := c.prepare(&store.Snapshot{}, batch)
	if len(push.Commits) != 3 {
		t.Errorf("%d commits", len(push.Commits))
	}
	// 300 files of one content, two folders and a commit for each author.
	if len(push.Objects) != 1+3*3 {
		t.Errorf("%d objects", len(push.Objects))
	}
}

func TestMessage(t *testing.T) {
	ada := store.Signature{Name: "Ada", Email: "ada@example.org"}
	e := func(subject string, trailers ...store.Trailer) store.Edit {
		return store.Edit{Author: ada, Subject: subject, Trailers: trailers}
	}
	for name, c := range map[string]struct {
		edits []store.Edit
		want  string
	}{
		"one":                  {[]store.Edit{e("claim: update a/b")}, "claim: update a/b\n"},
		"one without a word":   {[]store.Edit{e("\n ")}, "update\n"},
		"the same thing twice": {[]store.Edit{e("claim: update a/b", store.Trailer{Key: "G", Value: "1"}), e("claim: update a/b", store.Trailer{Key: "G", Value: "2"})}, "claim: update a/b\n\nG: 1\nG: 2\n"},
		"no common topic":      {[]store.Edit{e("claim: x"), e("status: y")}, "2 changes\n\n- claim: x\n- status: y\n"},
		"no topic":             {[]store.Edit{e("x"), e("y")}, "2 changes\n\n- x\n- y\n"},
	} {
		if got := message(c.edits); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if got := message([]store.Edit{e("a\u2028b\x00c\r\nd")}); strings.Count(got, "\n") != 1 {
		t.Errorf("more than a line: %q", got)
	}
}
