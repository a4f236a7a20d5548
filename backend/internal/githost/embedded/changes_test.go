package embedded

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/google/go-cmp/cmp"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/gitbridge/contract"
)

const (
	// proposal is the branch of the change that most tests propose.
	proposed = "changes/db/team-a/one"
	bob      = "oidc:bob@example.com"
)

var reviewed = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// propose has the owner push a change of one claim, beside another one.
func propose(t *testing.T, change ...func(*Config)) (*served, *clone) {
	t.Helper()
	s := serve(t, change...)
	c := s.clone(t, access.Owner)
	c.commit("Order", map[string]string{dbA: "plan: small\nsize: 1\n", dbB: "plan: small\n", mqA: "plan: small\n"})
	c.pushed("HEAD:main")
	c.git("checkout", "-q", "-b", "mine")
	c.commit("Make it big", map[string]string{dbA: "plan: big\nsize: 1\n"})
	c.pushed("HEAD:" + proposed)
	return s, c
}

// look reads the change that propose has pushed.
func (s *served) look(t *testing.T) *githost.Change {
	t.Helper()
	c, err := s.Change(t.Context(), cluster, proposed)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// approve merges a change as it was seen.
func (s *served) approve(t *testing.T, c *githost.Change) (string, error) {
	t.Helper()
	return s.Merge(t.Context(), cluster, githost.Merge{Branch: c.Branch, Head: c.Head, Effect: c.Effect, By: bob, Message: "Right so.", At: reviewed})
}

func TestAChangeIsShownDiscussedAndMerged(t *testing.T) {
	t.Parallel()
	s, c := propose(t)
	list, more, err := s.Changes(t.Context(), cluster)
	if err != nil || more || len(list) != 1 || list[0].Branch != proposed || list[0].Subject != "Make it big" || list[0].ProposedBy()[0] != "owner" {
		t.Fatalf("changes: %+v, %v", list, err)
	}
	seen := s.look(t)
	want := []githost.FileChange{{Path: dbA, Before: c.blob("HEAD~1:" + dbA), After: c.blob("HEAD:" + dbA),
		Was: []byte("plan: small\nsize: 1\n"), Is: []byte("plan: big\nsize: 1\n"), Diff: []string{"@@ -1,2 +1,2 @@", "-plan: small", "+plan: big", " size: 1"}}}
	if d := cmp.Diff(want, seen.Files); d != "" || seen.Effect == "" || len(seen.Conflicts) > 0 || len(seen.Commits) != 1 {
		t.Errorf("change %+v (-want +got):\n%s", seen, d)
	}
	comment := githost.Event{Kind: githost.EventCommented, By: bob, At: reviewed, Message: "Why?\n<b>\"\u2028"}
	if err := s.Record(t.Context(), cluster, proposed, seen.Head, comment); err != nil {
		t.Fatal(err)
	}
	comment.Commit = seen.Head
	if seen = s.look(t); len(seen.Events) != 2 || !slices.Contains(seen.Events, comment) {
		t.Errorf("events: %+v", seen.Events)
	}

	merge, err := s.approve(t, seen)
	if err != nil {
		t.Fatal(err)
	}
	c.git("fetch", "-q", "--prune", "origin", "main", "+refs/notes/reviews:refs/notes/reviews")
	wantLog := merge + " bob@example.com"
	if got := c.git("log", "-1", "--format=%H %an <%ae> | %cn <%ce> | %P | %B", "FETCH_HEAD"); !strings.HasPrefix(got, merge) {
		t.Errorf("main is %s, want %s", got, wantLog)
	} else if d := cmp.Diff("oidc:bob@example.com <oidc%3Abob%40example.com@people.gitbind.dev> | gitbind <backend@control-plane.gitbind.dev> | "+
		strings.TrimSpace(c.git("rev-parse", "HEAD~1"))+" "+seen.Head+" | Merge "+proposed+"\n\nMake it big\n\nRight so.\n\nProposed-by: owner\nApproved-by: oidc:bob@example.com",
		strings.TrimSpace(strings.TrimPrefix(got, merge+" "))); d != "" {
		t.Errorf("merge (-want +got):\n%s", d)
	}
	if out := c.git("log", "--notes=reviews", "-1", "--format=%N", seen.Head); strings.Count(out, "{") != 3 || !strings.Contains(out, `"event":"approved","by":"oidc:bob@example.com"`) {
		t.Errorf("stock git shows the notes:\n%s", out)
	}
	if _, err := s.Change(t.Context(), cluster, proposed); !errors.Is(err, githost.ErrNotFound) {
		t.Errorf("the branch of a merged change: %v", err)
	}
	moves := s.moves.list()
	if n := len(moves); n < 2 || moves[n-2].Ref != mainRef || moves[n-2].Hash != merge || moves[n-1].Ref != "refs/heads/"+proposed || moves[n-1].Hash != "" {
		t.Errorf("announced: %v", moves)
	}
	s.fsck(t)
}

// Those that are rejected stay until somebody deletes their branches.
func TestAListOfChangesHasTheNewestAndSaysThatThereAreMore(t *testing.T) {
	t.Parallel()
	s := serve(t)
	var stream strings.Builder
	for i := range githost.MaxChanges + 1 {
		fmt.Fprintf(&stream, "commit refs/heads/changes/%03d\ncommitter alice <alice@example.com> %d +0000\ndata 0\nfrom %s^0\n\n", i, reviewed.Unix()+int64(i), mainRef)
	}
	if out, err := stockGit(t, s.bare(), []byte(stream.String()), "fast-import", "--quiet"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	oldest, newest := "changes/000", fmt.Sprintf("changes/%03d", githost.MaxChanges)
	list := func() (names []string, more bool, heads map[string]string) {
		t.Helper()
		changes, more, err := s.Changes(t.Context(), cluster)
		if err != nil {
			t.Fatal(err)
		}
		heads = map[string]string{}
		for _, c := range changes {
			names, heads[c.Branch] = append(names, c.Branch), c.Head
		}
		return names, more, heads
	}
	names, more, heads := list()
	if len(names) != githost.MaxChanges || !more || !slices.IsSorted(names) || names[0] != "changes/001" || names[len(names)-1] != newest {
		t.Fatalf("there are more: %t, than %d: %v", more, len(names), names)
	}
	rejection := githost.Event{Kind: githost.EventRejected, By: bob, At: reviewed, Message: "No."}
	if err := s.Record(t.Context(), cluster, "changes/001", heads["changes/001"], rejection); err != nil {
		t.Fatal(err)
	}
	if names, _, _ = list(); len(names) != githost.MaxChanges || names[0] != "changes/002" || names[len(names)-1] != "changes/001" {
		t.Errorf("one that is rejected is among %v", names)
	}
	if out, err := stockGit(t, s.bare(), nil, "update-ref", "-d", "refs/heads/"+newest); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if names, more, _ = list(); len(names) != githost.MaxChanges || more || names[0] != oldest {
		t.Errorf("there are more: %t, than %d: %v", more, len(names), names)
	}
}

// What is read of a change's files is bounded: what becomes of services is read before what does not.
func TestRequestsAndClaimsAreReadBeforeOtherFiles(t *testing.T) {
	t.Parallel()
	s, c := propose(t)
	const request, claim = "bindings/dbs.x/request.yaml", "bindings/dbs.x/claims/team-b/one.yaml"
	large := strings.Repeat("x", maxContents/4-1)
	c.commit("And more", map[string]string{
		"a": large, "b": large + "b", "bindings/a/inputs/team-a/in.yaml": large + "c", "bindings/a/inputs/team-a/on.yaml": large + "d",
		"c": large + large, "bindings/dbs.x/claims/team-a/large.yaml": large + large, claim: "plan: big\n", request: "template: db\n",
	})
	c.pushed("HEAD:" + proposed)
	read := map[string]bool{}
	for _, f := range s.look(t).Files {
		read[f.Path] = f.Is != nil
	}
	for path, want := range map[string]bool{request: true, claim: true, "a": true, "bindings/dbs.x/claims/team-a/large.yaml": false, "c": false, "bindings/a/inputs/team-a/on.yaml": false} {
		if read[path] != want {
			t.Errorf("%s is read: %t", path, read[path])
		}
	}
}

// blob is the hash of a file.
func (c *clone) blob(name string) string {
	c.t.Helper()
	return strings.TrimSpace(c.git("rev-parse", name))
}

func TestAnApprovalIsOfWhatWasSeen(t *testing.T) {
	t.Parallel()
	s, c := propose(t)
	seen := s.look(t)

	// Main moves on elsewhere: the effect is the same.
	c.git("checkout", "-q", "main")
	c.commit("Order more", map[string]string{dbC: "plan: small\n"})
	c.pushed("HEAD:main")
	if again := s.look(t); again.Effect != seen.Effect || len(again.Files) != 1 || string(again.Files[0].Is) != "plan: big\nsize: 1\n" {
		t.Errorf("effect %+v, want that of %+v", again, seen)
	}
	// The branch moves on: what was seen is not what would be merged.
	c.git("checkout", "-q", "mine")
	c.commit("And more", map[string]string{dbB: "plan: big\n"})
	c.pushed("HEAD:" + proposed)
	if _, err := s.approve(t, seen); !errors.Is(err, githost.ErrMoved) {
		t.Errorf("a head that nobody saw: %v", err)
	}
	if err := s.Record(t.Context(), cluster, proposed, seen.Head, githost.Event{Kind: githost.EventRejected, By: bob}); !errors.Is(err, githost.ErrMoved) {
		t.Errorf("a verdict on an older head: %v", err)
	}
	seen = s.look(t)
	// Main gets a part of it: the same head changes something else now.
	c.git("checkout", "-q", "main")
	c.commit("Make two big", map[string]string{dbB: "plan: big\n"})
	c.pushed("HEAD:main")
	if _, err := s.approve(t, seen); !errors.Is(err, githost.ErrMoved) {
		t.Errorf("an effect that nobody saw: %v", err)
	}
	if _, err := s.approve(t, s.look(t)); err != nil {
		t.Error(err)
	}
	s.fsck(t)
}

// TestAMergeOfBothSidesIsShownAsItWillBe: what git makes of two edits is no file of either.
func TestAMergeOfBothSidesIsShownAsItWillBe(t *testing.T) {
	t.Parallel()
	s := serve(t)
	c := s.clone(t, access.Owner)
	text := strings.Repeat("- x\n", 20)
	c.commit("Order", map[string]string{dbA: "plan: small\nlist:\n" + text + "size: 1\n"})
	c.pushed("HEAD:main")
	c.git("checkout", "-q", "-b", "mine")
	c.commit("Make it big", map[string]string{dbA: "plan: big\nlist:\n" + text + "size: 1\n"})
	c.pushed("HEAD:" + proposed)
	c.git("checkout", "-q", "main")
	c.commit("More room", map[string]string{dbA: "plan: small\nlist:\n" + text + "size: 2\n"})
	c.pushed("HEAD:main")
	seen, both := s.look(t), "plan: big\nlist:\n"+text+"size: 2\n"
	if len(seen.Files) != 1 || string(seen.Files[0].Is) != both {
		t.Fatalf("change %+v", seen)
	}
	if _, err := s.approve(t, seen); err != nil {
		t.Fatal(err)
	}
	if data, _, err := s.Read(t.Context(), cluster, "main", dbA); err != nil || string(data) != both {
		t.Errorf("main has %q, %v", data, err)
	}
	s.fsck(t)
}

// A file that becomes a link has two diffs, one of what goes and one of what comes.
func TestEachDiffIsOfItsOwnFile(t *testing.T) {
	t.Parallel()
	s, c := propose(t)
	link := func(path string) {
		t.Helper()
		file := filepath.Join(c.dir, path)
		if err := errors.Join(os.Remove(file), os.Symlink("elsewhere", file)); err != nil {
			t.Fatal(err)
		}
		c.git("add", path)
	}
	link("README.md")
	link(dbB)
	c.commit("Links", map[string]string{mqA: "plan: big\n"})
	c.pushed("HEAD:" + proposed)
	want := map[string][]string{
		dbA: {"@@ -1,2 +1,2 @@", "-plan: small", "+plan: big", " size: 1"},
		dbB: {"@@ -1 +0,0 @@", "-plan: small", "@@ -0,0 +1 @@", "+elsewhere", "\\ No newline at end of file"},
		mqA: {"@@ -1 +1 @@", "-plan: small", "+plan: big"},
	}
	files := s.look(t).Files
	if len(files) != 4 || files[0].Path != "README.md" || files[0].Cut || !slices.Contains(files[0].Diff, "+elsewhere") || slices.Contains(files[0].Diff, "+plan: big") {
		t.Fatalf("%+v", files)
	}
	for _, f := range files[1:] {
		if d := cmp.Diff(want[f.Path], f.Diff); d != "" || f.Cut {
			t.Errorf("%s, cut %v (-want +got):\n%s", f.Path, f.Cut, d)
		}
	}

	// A link that becomes a file, and one that goes on as an executable.
	c.git("checkout", "-q", "main")
	c.git("merge", "-q", "mine")
	c.pushed("HEAD:main")
	c.git("checkout", "-q", "-B", "mine")
	if err := os.Remove(filepath.Join(c.dir, dbB)); err != nil {
		t.Fatal(err)
	}
	c.git("update-index", "--chmod=+x", dbA)
	c.commit("A file again", map[string]string{dbB: "plan: big\n", mqA: "plan: small\n"})
	c.pushed("HEAD:" + proposed)
	want = map[string][]string{
		dbA: nil,
		dbB: {"@@ -1 +0,0 @@", "-elsewhere", "\\ No newline at end of file", "@@ -0,0 +1 @@", "+plan: big"},
		mqA: {"@@ -1 +1 @@", "-plan: big", "+plan: small"},
	}
	if files = s.look(t).Files; len(files) != len(want) {
		t.Fatalf("%+v", files)
	}
	for _, f := range files {
		if d := cmp.Diff(want[f.Path], f.Diff); d != "" || f.Cut {
			t.Errorf("%s, cut %v (-want +got):\n%s", f.Path, f.Cut, d)
		}
	}
}

// Another number of diffs than of files leaves it open whose they are.
func TestDiffsThatAreOfNoKnownFileAreNotShown(t *testing.T) {
	t.Parallel()
	const one, two, three = "diff --git a/x b/x\n@@ -1 +1 @@\n-x\n", "diff --git a/y b/y\n@@ -1 +1 @@\n-y\n", "diff --git a/z b/z\n@@ -1 +1 @@\n-z\n"
	for _, c := range []struct {
		patch    string
		sections []int
		more     bool
		shown    bool
	}{
		{one + two, []int{0, 1}, false, true},
		{one + two + three, []int{0, 1, 1}, false, true},
		{one + two + three, []int{0, 1}, true, true},
		{one + two + three, []int{0, 1}, false, false},
		{one + two, []int{0, 1}, true, false},
		{one, []int{0, 1}, false, false},
		{one + two, []int{0, 1, 1}, false, false},
		{"", []int{0, 1}, false, false},
	} {
		files := []githost.FileChange{{Path: "x"}, {Path: "y"}}
		if err := readPatch(bufio.NewReader(strings.NewReader(c.patch)), files, c.sections, c.more); err != nil && !errors.Is(err, errEnough) {
			t.Fatal(err)
		}
		for _, f := range files {
			if (len(f.Diff) > 0) != c.shown || f.Cut == c.shown || c.shown && f.Diff[1] != "-"+f.Path {
				t.Errorf("%q for %v, more %v: %+v", c.patch, c.sections, c.more, f)
			}
		}
	}
}

// TestH4_SubjectsOfChangesAreBounded lists changes whose messages are one line of many bytes.
func TestH4_SubjectsOfChangesAreBounded(t *testing.T) {
	t.Parallel()
	s, c := propose(t)
	message := filepath.Join(t.TempDir(), "message")
	if err := os.WriteFile(message, bytes.Repeat([]byte("word "), 180_000), 0o600); err != nil {
		t.Fatal(err)
	}
	c.git("commit", "-q", "--allow-empty", "-F", message)
	c.pushed("HEAD:refs/heads/changes/long")
	list, _, err := s.Changes(t.Context(), cluster)
	if err != nil || len(list) != 2 || list[1].Branch != "changes/long" || list[0].Subject != "Make it big" {
		t.Fatalf("%d changes, %v", len(list), err)
	}
	if size := len(list[1].Subject); size > maxDiffLine || size < 1000 || list[1].Author != "alice" {
		t.Errorf("a subject of %d bytes by %q", size, list[1].Author)
	}
}

// TestH4_PathsOfAChangeAreBounded proposes a file with a path of many bytes, without and with a
// conflict.
func TestH4_PathsOfAChangeAreBounded(t *testing.T) {
	t.Parallel()
	s, c := propose(t)
	blob := func(content string) string {
		out, err := stockGit(t, c.dir, []byte(content), "hash-object", "-w", "--stdin")
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(out)
	}
	long := strings.Repeat("z", 100_000)
	// No file system has such a name.
	commit := func(content string, parents ...string) string {
		tree := strings.TrimSuffix(c.git("ls-tree", parents[0]), "\n") + "\n100644 blob " + blob(content) + "\t" + long + "\n"
		out, err := stockGit(t, c.dir, []byte(tree), "mktree")
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(c.git("commit-tree", "-m", "Long", "-p", parents[0], strings.TrimSpace(out)))
	}
	c.pushed(commit("plan: small\n", "mine") + ":" + "refs/heads/" + proposed)
	seen := s.look(t)
	if !seen.More || seen.Effect != "" || len(seen.Files) != 1 || seen.Files[0].Path != dbA || len(seen.Files[0].Diff) == 0 {
		t.Errorf("more %v, effect %q, %d files", seen.More, seen.Effect, len(seen.Files))
	}
	c.pushed(commit("plan: big\n", "main") + ":main")
	seen = s.look(t)
	if len(seen.Conflicts) != 1 || len(seen.Conflicts[0]) > githost.MaxPath+len("…") || seen.Conflicts[0][0] != 'z' {
		t.Errorf("%d conflicts", len(seen.Conflicts))
	}
}

// A name and a subject are somebody's: git has no end of a line in them.
func TestHeadsAreReadAsGitWritesThem(t *testing.T) {
	t.Parallel()
	head := strings.Repeat("1", 40)
	want := func(author, subject string) githost.Change {
		return githost.Change{Head: head, Branch: "changes/a", When: time.Unix(7, 0).UTC(), Author: author, Subject: subject}
	}
	begin := head + "\nrefs/heads/changes/a\n7\n"
	for text, all := range map[string][]githost.Change{
		"":                                  nil,
		begin + "alice\nOrder\n":            {want("alice", "Order")},
		begin + "\n\n":                      {want("", "")},
		begin + "a\rb\nOrder\r more\n":      {want("a\rb", "Order\r more")},
		begin + "a\n1\n" + begin + "b\n2\n": {want("a", "1"), want("b", "2")},
	} {
		got, err := readHeads(bufio.NewReader(strings.NewReader(text)))
		if d := cmp.Diff(all, got); d != "" || err != nil {
			t.Errorf("%q: %v %s", text, err, d)
		}
	}
	for end := 1; end <= len(begin); end++ {
		if got, err := readHeads(bufio.NewReader(strings.NewReader(begin[:end]))); err == nil {
			t.Errorf("%q: %+v", begin[:end], got)
		}
	}
}

func TestAChangeInConflictIsNotMerged(t *testing.T) {
	t.Parallel()
	s, c := propose(t)
	c.git("checkout", "-q", "main")
	c.commit("Make it medium", map[string]string{dbA: "plan: medium\nsize: 1\n"})
	c.pushed("HEAD:main")
	seen := s.look(t)
	if d := cmp.Diff([]string{dbA}, seen.Conflicts); d != "" || seen.Effect != "" || len(seen.Files) > 0 {
		t.Errorf("change %+v", seen)
	}
	if _, err := s.approve(t, seen); !errors.Is(err, githost.ErrMoved) {
		t.Errorf("merged: %v", err)
	}

	c.git("checkout", "-q", "--orphan", "other")
	c.commit("Another repository", map[string]string{"x": "x\n"})
	c.pushed("HEAD:changes/other")
	other, err := s.Change(t.Context(), cluster, "changes/other")
	if err != nil || !other.Unrelated || other.Effect != "" {
		t.Errorf("change %+v: %v", other, err)
	}
}

// TestARemovalBesideALikeFileIsNoRename: git would take the change of the file that is
// gone for one of the file that is like it.
func TestARemovalBesideALikeFileIsNoRename(t *testing.T) {
	t.Parallel()
	s := serve(t)
	c := s.clone(t, access.Owner)
	text := strings.Repeat("line: 1\n", 40)
	c.commit("Order", map[string]string{dbA: text})
	c.pushed("HEAD:main")
	c.git("checkout", "-q", "-b", "mine")
	c.commit("Change", map[string]string{dbA: text + "size: 2\n"})
	c.pushed("HEAD:" + proposed)
	c.git("checkout", "-q", "main")
	c.git("rm", "-q", dbA)
	c.commit("Order another in its place", map[string]string{dbB: text})
	c.pushed("HEAD:main")
	if seen := s.look(t); len(seen.Files) > 0 || !slices.Equal(seen.Conflicts, []string{dbA}) {
		t.Errorf("change %+v, want a conflict", seen)
	}
}

func TestLookingAtAChangeWritesNothing(t *testing.T) {
	t.Parallel()
	s, c := propose(t)
	c.git("checkout", "-q", "main")
	c.commit("Order more", map[string]string{dbC: "plan: small\n"})
	c.pushed("HEAD:main")
	files := func() (all []string) {
		_ = filepath.WalkDir(s.git.dir, func(path string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() {
				all = append(all, path)
			}
			return err
		})
		return all
	}
	before := files()
	s.look(t)
	if _, _, err := s.Changes(t.Context(), cluster); err != nil {
		t.Error(err)
	}
	if d := cmp.Diff(before, files()); d != "" {
		t.Errorf("files (-before +after):\n%s", d)
	}
	left, err := os.ReadDir(s.git.dir)
	if err != nil || slices.ContainsFunc(left, func(e os.DirEntry) bool { return strings.HasPrefix(e.Name(), newPrefix) }) {
		t.Errorf("left over: %v, %v", left, err)
	}
}

func TestARejectedChangeMayBeDeleted(t *testing.T) {
	t.Parallel()
	s, c := propose(t)
	c.refused("it stays until it is merged or rejected", ":"+proposed)
	seen := s.look(t)
	if err := s.Record(t.Context(), cluster, proposed, seen.Head, githost.Event{Kind: githost.EventRejected, By: bob, At: reviewed}); err != nil {
		t.Fatal(err)
	}
	if !s.look(t).Rejected() {
		t.Error("it is not rejected")
	}
	// Another head is another proposal.
	c.commit("Better", map[string]string{dbA: "plan: medium\nsize: 1\n"})
	c.pushed("HEAD:" + proposed)
	if s.look(t).Rejected() {
		t.Error("the new head is rejected, too")
	}
	c.refused("it stays until it is merged or rejected", ":"+proposed)
	if err := s.Record(t.Context(), cluster, proposed, s.look(t).Head, githost.Event{Kind: githost.EventRejected, By: bob, At: reviewed}); err != nil {
		t.Fatal(err)
	}
	c.pushed(":" + proposed)
	s.fsck(t)
}

// What became of a commit that was proposed, through its life.
func TestTheOutcomeOfAProposedCommit(t *testing.T) {
	t.Parallel()
	s, c := propose(t)
	commit := s.look(t).Head
	outcome := func(what, branch, commit string, want githost.Outcome) {
		t.Helper()
		got, err := s.Outcome(t.Context(), cluster, branch, commit)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s (%v):\n%s", what, err, diff)
		}
	}
	outcome("open", proposed, commit, githost.Outcome{Head: commit})
	outcome("a branch that is gone", "changes/db/team-a/none", commit, githost.Outcome{Closed: true})
	outcome("a commit that the repository does not have", proposed, strings.Repeat("1", 40), githost.Outcome{Lost: true})
	rejection := githost.Event{Kind: githost.EventRejected, By: bob, At: reviewed, Message: "Too big."}
	if err := s.Record(t.Context(), cluster, proposed, commit, rejection); err != nil {
		t.Fatal(err)
	}
	rejection.Commit = commit
	outcome("rejected", proposed, commit, githost.Outcome{Head: commit, Rejection: &rejection})
	c.commit("Better", map[string]string{dbA: "plan: medium\nsize: 1\n"})
	c.pushed("HEAD:" + proposed)
	better := s.look(t).Head
	outcome("another head", proposed, commit, githost.Outcome{Head: better})
	set := func(to string) {
		t.Helper()
		if out, err := stockGit(t, s.bare(), nil, "update-ref", contract.HeadsPrefix+proposed, to); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	set(commit)
	outcome("the branch has gone back", proposed, better, githost.Outcome{Lost: true})
	set(strings.TrimSpace(c.git("rev-parse", "HEAD~2")))
	c.git("checkout", "-q", "-B", "other", "HEAD~2")
	c.commit("Otherwise", map[string]string{dbA: "plan: tiny\nsize: 1\n"})
	c.pushed("HEAD:" + proposed)
	outcome("the branch is another one, of a person", proposed, better, githost.Outcome{})
	if out, err := stockGit(t, s.bare(), nil, "update-ref", "-d", contract.HeadsPrefix+proposed); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	k := s.clone(t, access.Konnector)
	k.commit("claim: update", map[string]string{dbA: "plan: large\nsize: 1\n"})
	k.pushed("HEAD:" + proposed)
	outcome("the branch is another one, of the konnector", proposed, better, githost.Outcome{Lost: true})
	set(better)
	if _, err := s.approve(t, s.look(t)); err != nil {
		t.Fatal(err)
	}
	outcome("merged", proposed, commit, githost.Outcome{Merged: true})
	if _, err := s.Outcome(t.Context(), cluster, "main", commit); !errors.Is(err, githost.ErrNotFound) {
		t.Errorf("of main: %v", err)
	}
}

// Main is read first, and its branch is gone by the time that is looked for.
func TestAChangeThatIsMergedWhileItIsLookedAtIsNotClosed(t *testing.T) {
	t.Parallel()
	s, _ := propose(t)
	seen := s.look(t)
	err := s.reading(t.Context(), cluster, "main", func(ctx context.Context, repo *repository, main string) error {
		if _, err := s.approve(t, seen); err != nil {
			return err
		}
		got, err := repo.outcome(ctx, cluster, contract.HeadsPrefix+proposed, plumbing.NewHash(seen.Head), plumbing.NewHash(main))
		if !got.Merged || got.Closed {
			t.Errorf("%+v", got)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestWhoPushesIsRecordedAndNobodyElseWritesThat(t *testing.T) {
	t.Parallel()
	s, rights, c := sharing(t)
	rights.set("propose db")
	c.git("checkout", "-q", "-b", "mine")
	c.commit("One", map[string]string{dbA: "plan: big\n"})
	c.pushed("HEAD:" + proposed)
	c.pushed("HEAD:changes/db/team-a/again")
	c.commit("Two", map[string]string{dbA: "plan: bigger\n"})
	c.pushed("HEAD:" + proposed)
	seen := s.look(t)
	if got := seen.ProposedBy(); !slices.Equal(got, []string{bob}) || len(seen.Events) != 3 {
		t.Errorf("proposed by %v: %+v", got, seen.Events)
	}
	// The owner goes on with what bob began: both have proposed it.
	owner := s.clone(t, access.Owner)
	owner.git("checkout", "-q", "-b", "mine", "origin/"+proposed)
	owner.commit("Three", map[string]string{dbA: "plan: biggest\n"})
	owner.pushed("HEAD:" + proposed)
	if got := s.look(t).ProposedBy(); len(got) != 2 || !slices.Contains(got, bob) || !slices.Contains(got, "owner") {
		t.Errorf("proposed by %v", got)
	}
	for _, role := range []*clone{c, owner, s.clone(t, access.Konnector), s.clone(t, access.Bridge)} {
		role.refused("only the branches", "--force", "HEAD:refs/notes/reviews")
		role.refused("only the branches", "--delete", "refs/notes/reviews")
	}
	// A push that is refused proposes nothing.
	c.commit("Not his", map[string]string{mqA: "plan: big\n"})
	head := c.blob("HEAD")
	c.refused("may not propose", "HEAD:changes/mq")
	if out, err := stockGit(t, s.bare(), nil, "cat-file", "-e", noteName(head)); err == nil {
		t.Errorf("it is recorded: %s", out)
	}
	s.fsck(t)
}

func TestABranchesNameMeansNothingToAShell(t *testing.T) {
	t.Parallel()
	s, c := propose(t)
	for _, name := range []string{"$(id)", "a;b", "a'b", "`x`", "-n", "a/-n", "a|b", "a&b", "ä", "a#b", "a\"b", "a!b", "a>b", "(a)"} {
		c.refused("as others copy it into commands", "HEAD:refs/heads/changes/"+name)
	}
	for _, name := range []string{"db.example.com/team-a/one", "a%2Fb", "fix_1+2=3@4"} {
		c.pushed("HEAD:changes/" + name)
	}
	for _, name := range []string{"../main", "changes", "main", "changes/", "changes/../main", "conflicts/x", "changes/a b"} {
		if _, err := s.Change(t.Context(), cluster, name); !errors.Is(err, githost.ErrNotFound) {
			t.Errorf("change %q: %v", name, err)
		}
	}
}

func TestWhatIsSaidOfAChangeIsBounded(t *testing.T) {
	t.Parallel()
	s, c := propose(t)
	head := s.look(t).Head
	long := strings.Repeat("x", githost.MaxMessage)
	for i := range githost.MaxEvents {
		e := githost.Event{Kind: githost.EventCommented, By: bob, At: reviewed, Message: fmt.Sprintf("%d %s", i, long)}
		if err := s.Record(t.Context(), cluster, proposed, head, e); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Record(t.Context(), cluster, proposed, head, githost.Event{Kind: githost.EventCommented, By: bob}); !errors.Is(err, githost.ErrFull) {
		t.Errorf("one more: %v", err)
	}
	if seen := s.look(t); len(seen.Events) != githost.MaxEvents+1 || !strings.HasPrefix(seen.Events[0].Message, "0 xxx") {
		t.Errorf("%d events", len(seen.Events))
	}
	for i := 1; i < githost.MaxEvents; i += 50 {
		var refs []string
		for j := i; j < min(i+50, githost.MaxEvents); j++ {
			refs = append(refs, fmt.Sprintf("mine:refs/heads/changes/again%d", j))
		}
		c.pushed(refs...)
	}
	c.refused("its last commit was pushed more than 100 times already: add a commit", "mine:refs/heads/changes/once-more")
	if _, err := s.approve(t, s.look(t)); err != nil {
		t.Errorf("the verdict finds no room: %v", err)
	}

	// More files than anybody reads are no change that can be approved.
	c.git("checkout", "-q", "main")
	files := map[string]string{}
	for i := range githost.MaxChangedFiles + 1 {
		files[fmt.Sprintf("bindings/db/claims/team-a/n%d.yaml", i)] = "plan: small\n"
	}
	c.commit("Order many", files)
	c.pushed("HEAD:" + proposed)
	seen := s.look(t)
	if !seen.More || seen.Effect != "" || len(seen.Files) != githost.MaxChangedFiles || len(seen.Files[githost.MaxChangedFiles-1].Diff) == 0 {
		t.Errorf("more %v, effect %q, %d files", seen.More, seen.Effect, len(seen.Files))
	}
	if _, err := s.approve(t, seen); !errors.Is(err, githost.ErrMoved) {
		t.Errorf("merged: %v", err)
	}
}
