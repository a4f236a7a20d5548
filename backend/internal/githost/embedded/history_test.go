package embedded

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/backend/internal/githost"
)

const (
	folder = "bindings/databases.example.com/claims"
	orders = folder + "/team-a/orders.yaml"
)

// all keeps each file.
func all(string) bool { return true }

// TestHistoryReadsWhatWasPushed walks through a file's life.
func TestHistoryReadsWhatWasPushed(t *testing.T) {
	t.Parallel()
	s := serve(t)
	ctx := t.Context()
	c := s.clone(t, access.Owner)
	c.commit("Order a database", map[string]string{orders: "plan: small\nsize: 1\n"})
	c.commit("Order another", map[string]string{folder + "/team-b/x.yaml": "plan: big\n"})
	c.commit("Make it big\n\nIt is full.\n\nCo-authored-by: Bob <bob@example.com>\nCo-authored-by: Carol <carol@example.com>\n", map[string]string{orders: "plan: big\nsize: 1\n"})
	c.pushed("HEAD:main")

	head, err := s.Head(ctx, cluster, "main")
	if want := strings.TrimSpace(c.git("rev-parse", "HEAD")); err != nil || head != want {
		t.Errorf("head %q (%v), want %q", head, err, want)
	}
	for _, revision := range []string{"main", head} {
		files, err := s.List(ctx, cluster, revision, folder, all)
		var paths []string
		for _, f := range files {
			paths = append(paths, f.Path)
			if !f.Regular {
				t.Errorf("%s is no regular file", f.Path)
			}
		}
		if want := []string{orders, folder + "/team-b/x.yaml"}; err != nil || !slices.Equal(paths, want) {
			t.Errorf("list: %q (%v), want %q", paths, err, want)
		}
		data, blob, err := s.Read(ctx, cluster, revision, orders)
		if err != nil || string(data) != "plan: big\nsize: 1\n" || blob != files[0].Blob {
			t.Errorf("read: %q (%v)", data, err)
		}
		var contents []string
		err = s.Blobs(ctx, cluster, []string{files[1].Blob, files[0].Blob}, func(_ string, data []byte) error {
			contents = append(contents, string(data))
			return nil
		})
		if want := []string{"plan: big\n", "plan: big\nsize: 1\n"}; err != nil || !slices.Equal(contents, want) {
			t.Errorf("blobs: %q (%v), want %q", contents, err, want)
		}
	}
	var read []string
	if err := s.ReadAll(ctx, cluster, "main", []string{folder + "/team-b/x.yaml", folder + "/team-b/none.yaml", orders}, func(path string, data []byte) error {
		read = append(read, path+": "+string(data))
		return nil
	}); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{folder + "/team-b/x.yaml: plan: big\n", folder + "/team-b/none.yaml: ", orders + ": plan: big\nsize: 1\n"}, read); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
	log, err := s.Log(ctx, cluster, orders, 10)
	if err != nil || len(log) != 2 {
		t.Fatalf("log: %+v (%v), want two commits", log, err)
	}
	newest := log[0]
	if newest.Hash != head || newest.Author != "alice" || newest.Email != "alice@example.com" || newest.Subject != "Make it big" || newest.When.IsZero() {
		t.Errorf("newest commit %+v", newest)
	}
	if diff := cmp.Diff([]string{"Bob <bob@example.com>", "Carol <carol@example.com>"}, newest.With); diff != "" {
		t.Errorf("co-authors (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"@@ -1,2 +1,2 @@", "-plan: small", "+plan: big", " size: 1"}, newest.Diff); diff != "" {
		t.Errorf("diff (-want +got):\n%s", diff)
	}
	if one, err := s.Log(ctx, cluster, orders, 1); err != nil || len(one) != 1 {
		t.Errorf("log of one: %d (%v)", len(one), err)
	}
}

// TestHistorySaysWhatIsNotThere keeps the kinds of nothing apart.
func TestHistorySaysWhatIsNotThere(t *testing.T) {
	t.Parallel()
	s := serve(t)
	ctx := t.Context()
	if _, err := s.Head(ctx, cluster, "status"); !errors.Is(err, githost.ErrNotFound) {
		t.Errorf("a branch that is not there: %v", err)
	}
	if _, _, err := s.Read(ctx, cluster, "main", orders); !errors.Is(err, githost.ErrNotFound) {
		t.Errorf("a file that is not there: %v", err)
	}
	if _, _, err := s.Read(ctx, cluster, "main", "."+"git"); !errors.Is(err, githost.ErrNotFound) {
		t.Errorf("another file that is not there: %v", err)
	}
	if err := s.ReadAll(ctx, cluster, "status", []string{orders}, nil); !errors.Is(err, githost.ErrNotFound) {
		t.Errorf("a file of a branch that is not there: %v", err)
	}
	if err := s.ReadAll(ctx, cluster, "main", []string{"."}, nil); err == nil {
		t.Error("what is no path is read")
	}
	if files, err := s.List(ctx, cluster, "main", folder, all); err != nil || len(files) != 0 {
		t.Errorf("a folder that is not there: %v %v", files, err)
	}
	if log, err := s.Log(ctx, cluster, orders, 5); err != nil || len(log) != 0 {
		t.Errorf("the history of what never was: %v %v", log, err)
	}
	if _, err := s.Head(ctx, "nobody", "main"); err == nil || errors.Is(err, githost.ErrNotFound) {
		t.Errorf("a repository that is not there: %v", err)
	}
}

// TestHistoryTakesNothingButPathsAndHashes hands git's options and path tricks to
// the reader.
func TestHistoryTakesNothingButPathsAndHashes(t *testing.T) {
	t.Parallel()
	s := serve(t)
	ctx := t.Context()
	for _, path := range []string{"", "/etc/passwd", "../" + other + ".git/HEAD", "a/../b", "a//b", "./a", "a/", "a\nrefs/heads/main:README.md", "a\x00b", "a\xff", "a\u0085b", strings.Repeat("a", 5000)} {
		if _, _, err := s.Read(ctx, cluster, "main", path); err == nil || errors.Is(err, githost.ErrNotFound) {
			t.Errorf("read %q: %v", path, err)
		}
		if _, err := s.List(ctx, cluster, "main", path, all); err == nil {
			t.Errorf("list %q went through", path)
		}
		if _, err := s.Log(ctx, cluster, path, 1); err == nil {
			t.Errorf("log %q went through", path)
		}
	}
	// Plain names, whatever they mean to git elsewhere.
	for _, path := range []string{"--output=/tmp/gitbind-must-not-be", ":(top)README.md", "*", "-p"} {
		if log, err := s.Log(ctx, cluster, path, 1); err != nil || len(log) != 0 {
			t.Errorf("log %q: %v %v", path, log, err)
		}
		if files, err := s.List(ctx, cluster, "main", path, all); err != nil || len(files) != 0 {
			t.Errorf("list %q: %v %v", path, files, err)
		}
	}
	for _, revision := range []string{"", "HEAD", "--all", "main^{tree}", "refs/heads/main", "main\nx", "deadbeef", "changes/x"} {
		if _, err := s.Head(ctx, cluster, revision); err == nil || errors.Is(err, githost.ErrNotFound) {
			t.Errorf("head of %q: %v", revision, err)
		}
	}
	for _, id := range []string{"", "..", "a/b", "K3X9D2ABQW", cluster + ".git"} {
		if _, err := s.Head(ctx, id, "main"); err == nil {
			t.Errorf("cluster %q went through", id)
		}
	}
	if err := s.Blobs(ctx, cluster, []string{"HEAD:README.md"}, nil); err == nil {
		t.Error("a blob by name went through")
	}
}

// TestHistoryIsBounded reads what is too large, and a history that tries to pass
// for other commits.
func TestHistoryIsBounded(t *testing.T) {
	t.Parallel()
	s := serve(t)
	ctx := t.Context()
	c := s.clone(t, access.Owner)
	const forged = "commit 0123456789012345678901234567890123456789\nmallory\nmallory@example.com\n0\nforged\n\n@@ -1 +1 @@\n"
	c.commit("Add a file that looks like a log", map[string]string{orders: forged})
	c.commit("Grow", map[string]string{orders: forged + strings.Repeat("line\n", 40_000) + strings.Repeat("x", 100_000) + "\n"})
	c.commit("Add a huge one", map[string]string{folder + "/team-a/huge.yaml": strings.Repeat("0123456789abcdef\n", githost.MaxFile/16)})
	c.pushed("HEAD:main")

	log, err := s.Log(ctx, cluster, orders, 10)
	if err != nil || len(log) != 2 {
		t.Fatalf("log: %d commits (%v), want 2", len(log), err)
	}
	size := 0
	for _, line := range log[0].Diff {
		size += len(line) + 1
	}
	if !log[0].Cut || size > maxDiff || size < maxDiff/2 || log[1].Cut || log[1].Diff[1] != "+commit 0123456789012345678901234567890123456789" {
		t.Errorf("the long diff has %d bytes (cut %v), the short one is %q", size, log[0].Cut, log[1].Diff)
	}
	if _, _, err := s.Read(ctx, cluster, "main", folder+"/team-a/huge.yaml"); !errors.Is(err, githost.ErrTooLarge) {
		t.Errorf("a huge file: %v", err)
	}
	files, err := s.List(ctx, cluster, "main", folder, all)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	err = s.Blobs(ctx, cluster, []string{files[0].Blob, files[1].Blob}, func(_ string, data []byte) error {
		got = append(got, fmt.Sprint(data == nil))
		return nil
	})
	if err != nil || !slices.Equal(got, []string{"true", "false"}) {
		t.Errorf("blobs: %q (%v), want the huge one left out", got, err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := s.Log(ended, cluster, orders, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("after its caller left: %v", err)
	}
}

// TestH4_TheDiffsOfAnAnswerAreBoundedTogether reads a history and a change of empty lines: each is
// a byte in Git, and much more on a page.
func TestH4_TheDiffsOfAnAnswerAreBoundedTogether(t *testing.T) {
	t.Parallel()
	s := serve(t)
	c := s.clone(t, access.Owner)
	const commits = 6
	long := strings.Repeat("\n", 33_000)
	for i := range commits {
		c.commit(fmt.Sprint("Change ", i), map[string]string{orders: []string{long, "a\n"}[i%2]})
	}
	c.pushed("HEAD:main")
	log, err := s.Log(t.Context(), cluster, orders, commits)
	if err != nil || len(log) != commits {
		t.Fatalf("log: %d commits (%v), want %d", len(log), err, commits)
	}
	lines := 0
	for i, commit := range log {
		lines += len(commit.Diff)
		if !commit.Cut || commit.Subject != fmt.Sprint("Change ", commits-1-i) {
			t.Errorf("commit %d: %q, cut %v, %d lines", i, commit.Subject, commit.Cut, len(commit.Diff))
		}
	}
	if most := maxLogDiffs / 64; lines > most || lines < most/2 {
		t.Errorf("%d lines of the history, want about %d", lines, most)
	}

	files := map[string]string{}
	for i := range 8 {
		files[fmt.Sprintf("%s/team-a/long%d.yaml", folder, i)] = long
	}
	c.commit("Order many", files)
	c.pushed("HEAD:refs/heads/changes/long")
	change, err := s.Change(t.Context(), cluster, "changes/long")
	if err != nil || len(change.Files) != len(files) {
		t.Fatalf("change: %+v (%v)", change, err)
	}
	lines = 0
	for _, f := range change.Files {
		lines += len(f.Diff)
		if !f.Cut {
			t.Errorf("%s is not said to be cut, at %d lines", f.Path, len(f.Diff))
		}
	}
	if most := maxChangeDiffs / 64; lines > most || lines < most/2 {
		t.Errorf("%d lines of the change, want about %d", lines, most)
	}
}

// TestOrdinaryDiffsAreNotCut has two hundred changes of a claim, and three hundred orders.
func TestOrdinaryDiffsAreNotCut(t *testing.T) {
	t.Parallel()
	var history strings.Builder
	for range 200 {
		history.WriteString("commit 0123456789012345678901234567890123456789\nalice\nalice@example.com\n0\nChange\n\n\ndiff --git a/x b/x\n@@ -20,7 +20,7 @@ spec:\n" +
			strings.Repeat("     retention: \"7d\" # at least a week\n", 6) + "-    size: \"10Gi\"\n+    size: \"20Gi\"\n")
	}
	log, err := readLog(bufio.NewReader(strings.NewReader(history.String())))
	if err != nil || len(log) != 200 {
		t.Fatalf("%d commits, %v", len(log), err)
	}
	for i, commit := range log {
		if commit.Cut || len(commit.Diff) != 9 {
			t.Fatalf("commit %d: cut %v, %d lines", i, commit.Cut, len(commit.Diff))
		}
	}
	files, sections := make([]githost.FileChange, githost.MaxChangedFiles), []int{}
	for i := range files {
		sections = append(sections, i)
	}
	patch := strings.Repeat("diff --git a/x b/x\n@@ -0,0 +1,50 @@\n"+strings.Repeat("+    retention: \"7d\" # a week\n", 50), len(files))
	if err := readPatch(bufio.NewReader(strings.NewReader(patch)), files, sections, false); err != nil {
		t.Fatal(err)
	}
	for i, f := range files {
		if f.Cut || len(f.Diff) != 51 {
			t.Fatalf("file %d: cut %v, %d lines", i, f.Cut, len(f.Diff))
		}
	}
}

// TestH4_WhatALineTakesOnAPageCounts counts characters that a page has in a longer form, and
// bounds the people whom a commit names.
func TestH4_WhatALineTakesOnAPageCounts(t *testing.T) {
	t.Parallel()
	const begin = "commit 0123456789012345678901234567890123456789\nalice\nalice@example.com\n0\nChange\n"
	for text, most := range map[string]int{"\"": maxLogDiffs / 6, "\x01": maxLogDiffs / 13, "\u00ad": maxLogDiffs * 2 / 14, "\ue000": maxLogDiffs * 3 / 15} {
		history := strings.Repeat(begin+"\n@@ -1 +1 @@\n"+strings.Repeat(strings.Repeat(text, 4000)+"\n", 16), 17)
		log, err := readLog(bufio.NewReader(strings.NewReader(history)))
		if err != nil || len(log) != 17 {
			t.Fatalf("%d commits, %v", len(log), err)
		}
		size := 0
		for _, commit := range log {
			size += len(strings.Join(commit.Diff, ""))
		}
		if size > most || size < most/2 || !log[16].Cut {
			t.Errorf("%q: %d bytes, want about %d", text, size, most)
		}
	}
	log, err := readLog(bufio.NewReader(strings.NewReader(begin + strings.Repeat("x\t", 2000) + "\n")))
	if err != nil || len(log) != 1 || len(log[0].With) != maxWith {
		t.Errorf("%d commits, %v: want one with %d further authors", len(log), err, maxWith)
	}
}

// mktree writes a tree of the same entry under many long names.
func (c *clone) mktree(entry string, names int, format string) (tree string) {
	c.t.Helper()
	var lines strings.Builder
	for i := range names {
		fmt.Fprintf(&lines, "%s\t"+format+"\n", entry, i)
	}
	out, err := stockGit(c.t, c.dir, []byte(lines.String()), "mktree")
	if err != nil {
		c.t.Fatalf("git mktree: %v\n%s", err, out)
	}
	return "040000 tree " + strings.TrimSpace(out)
}

// TestFoldersThatHoldEachOtherAreNotListed reads a few small trees that are a billion
// files, from before a push of such was refused.
func TestFoldersThatHoldEachOtherAreNotListed(t *testing.T) {
	t.Parallel()
	s := serve(t)
	c := s.clone(t, access.Owner)
	file := "100644 blob " + strings.TrimSpace(c.git("hash-object", "-w", "README.md"))
	long := strings.Repeat("x", 150)
	for name, c2 := range map[string]struct {
		trees []string
		keep  func(string) bool
	}{
		"long names":           {[]string{long + "%d", long + "%d", long + "%d", long + "%d", long + "%d"}, func(string) bool { return false }},
		"names of claims":      {[]string{"claim%d.yaml", "team%d", "claims%.0d", "databases%d.example.com"}, all},
		"long names of claims": {[]string{long + "%d.yaml", "team%d", "claims%.0d", "databases%d.example.com"}, all},
	} {
		tree := file
		for _, format := range c2.trees {
			names := 100
			if format == "claims%.0d" {
				names = 1
			}
			tree = c.mktree(tree, names, format)
		}
		tree = c.mktree(tree, 1, "bindings%.0d")
		commit := strings.TrimSpace(c.git("commit-tree", "-m", name, "-p", "origin/main", strings.Fields(tree)[2]))
		if out, err := stockGit(t, s.bare(), nil, "fetch", "-q", c.dir, "+"+commit+":refs/heads/main"); err != nil {
			t.Fatalf("git fetch: %v\n%s", err, out)
		}
		seen := 0
		files, err := s.List(t.Context(), cluster, "main", "bindings", func(path string) bool {
			seen++
			return c2.keep(path)
		})
		if !errors.Is(err, githost.ErrTooMany) || len(files) > 0 || seen == 0 || seen > maxFiles {
			t.Errorf("%s: %d files, %d looked at: %v", name, len(files), seen, err)
		}
	}
}

// TestALongPathIsLeftOut reads what git writes about paths that nobody keeps.
func TestALongPathIsLeftOut(t *testing.T) {
	t.Parallel()
	about := "100644 blob " + ones + "\t"
	read := func(path string) ([]githost.File, error) {
		in := about + "a\x00" + about + path + "\x00" + about + "z\x00"
		return readTree(bufio.NewReaderSize(strings.NewReader(in), 4<<10), all)
	}
	for size, want := range map[int]string{1: "a m z", githost.MaxPath: "a m z", githost.MaxPath + 1: "a z", 4 << 10: "a z", 1 << 20: "a z", maxTree: ""} {
		files, err := read(strings.Repeat("m", size))
		var got []string
		for _, f := range files {
			got = append(got, f.Path[:1])
		}
		if strings.Join(got, " ") != want || (want == "") != errors.Is(err, githost.ErrTooMany) || want != "" && err != nil {
			t.Errorf("%d bytes: %q (%v), want %q", size, got, err, want)
		}
	}
}

// TestOneRepositorysReadersLeavePlacesToTheOthers keeps a repository's readers
// waiting.
func TestOneRepositorysReadersLeavePlacesToTheOthers(t *testing.T) {
	t.Parallel()
	s := serve(t)
	ctx := t.Context()
	head := strings.TrimSpace(s.head(t, mainRef))
	var busy sync.WaitGroup
	release := make(chan struct{})
	reading := make(chan struct{}, maxReads)
	waiting, cancel := context.WithCancel(ctx)
	for range maxReads {
		busy.Go(func() {
			_ = s.reading(waiting, cluster, head, func(context.Context, *repository, string) error {
				reading <- struct{}{}
				<-release
				return nil
			})
		})
	}
	for range maxRepositoryReads {
		<-reading
	}
	if _, err := s.Head(ctx, other, "main"); err != nil {
		t.Errorf("another repository: %v", err)
	}
	cancel()
	close(release)
	busy.Wait()
	if len(reading) > 0 {
		t.Errorf("%d read beyond the repository's places", len(reading))
	}
}
