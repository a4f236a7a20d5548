package embedded

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/google/go-cmp/cmp"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/backend/internal/githost"
)

// A change decides on all of the commits that main gets by it: with git merge -s ours, who may propose
// more than one part would have the approver of one decide on a proposal for another.
func TestAChangeIsOfAllPartsThatItsCommitsTouch(t *testing.T) {
	t.Parallel()
	s, c := propose(t)
	c.git("checkout", "-q", "main")
	c.commit("Main goes on", map[string]string{dbC: "plan: small\n", owners: "alice\n"})
	c.pushed("HEAD:main")
	begin := func(from string) {
		c.git("checkout", "-q", "-B", "work", from)
		c.commit("Order more", map[string]string{mqA: "plan: big\n"})
	}
	a, b, mq := access.Part{Binding: "db", Namespace: "team-a"}, access.Part{Binding: "db", Namespace: "team-b"}, access.Part{Binding: "mq", Namespace: "team-a"}
	for _, change := range []struct {
		what    string
		make    func()
		touched []access.Part
	}{
		{"its own part only", func() { begin("main") }, []access.Part{mq}},
		{"one of others taken back by the merge", func() {
			begin("main")
			c.git("merge", "-q", "-s", "ours", "-m", "Merge", "mine")
		}, []access.Part{a, mq}},
		{"one of others merged below its own commits", func() {
			c.git("checkout", "-q", "-B", "work", "main")
			c.git("merge", "-q", "-s", "ours", "-m", "Merge", "mine")
			c.commit("Order more", map[string]string{mqA: "plan: big\n"})
		}, []access.Part{a, mq}},
		{"two of others by an octopus", func() {
			c.git("checkout", "-q", "-B", "second", "main")
			c.commit("Make two big", map[string]string{dbB: "plan: big\n"})
			begin("main")
			c.git("merge", "-q", "-s", "ours", "-m", "Merge", "mine", "second")
		}, []access.Part{a, b, mq}},
		{"an edit that is reverted", func() {
			begin("main")
			c.commit("There", map[string]string{dbB: "plan: big\n"})
			c.git("revert", "--no-edit", "HEAD")
		}, []access.Part{b, mq}},
		{"a merge of main", func() {
			begin("main~1")
			c.git("merge", "-q", "-m", "Merge", "main")
		}, []access.Part{mq}},
		{"a merge of main that changes the same part", func() {
			begin("main~1")
			c.git("merge", "-q", "--no-commit", "main")
			c.commit("Merge", map[string]string{mqA: "plan: huge\n"})
		}, []access.Part{mq}},
		{"a merge of main into nothing of its own", func() {
			c.git("checkout", "-q", "-B", "work", "main~1")
			c.git("merge", "-q", "--no-ff", "-m", "Merge", "main")
			c.commit("Order more", map[string]string{mqA: "plan: big\n"})
		}, []access.Part{mq}},
		// No commit but the merge takes main back.
		{"one of others that takes main back", func() {
			c.git("checkout", "-q", "-B", "back", "main~1")
			c.git("merge", "-q", "-s", "ours", "-m", "As before", "main")
			begin("main")
			c.git("merge", "-q", "-s", "ours", "-m", "Merge", "back")
		}, []access.Part{{}, {Binding: "db", Namespace: "team-c"}, mq}},
		{"the same behind a merge of two", func() {
			c.git("checkout", "-q", "-B", "above", "main")
			c.git("commit", "-q", "--allow-empty", "-m", "Nothing")
			c.git("checkout", "-q", "-B", "back", "main~1")
			c.git("merge", "-q", "-s", "ours", "-m", "As before", "above")
			begin("main")
			c.git("merge", "-q", "-s", "ours", "-m", "Merge", "back")
		}, []access.Part{{}, {Binding: "db", Namespace: "team-c"}, mq}},
		{"a history of its own", func() {
			begin("main")
			tree := strings.TrimSpace(c.git("rev-parse", "mine^{tree}"))
			root := strings.TrimSpace(c.git("commit-tree", "-m", "Root", tree))
			c.git("merge", "-q", "-s", "ours", "--allow-unrelated-histories", "-m", "Merge", root)
		}, []access.Part{{}, a, b, mq}},
	} {
		change.make()
		branch := "changes/mq/team-a/" + strings.ReplaceAll(strings.ReplaceAll(change.what, ",", ""), " ", "-")
		c.pushed("HEAD:" + branch)
		seen, err := s.Change(t.Context(), cluster, branch)
		if err != nil {
			t.Fatalf("%s: %v", change.what, err)
		}
		if d := cmp.Diff(change.touched, seen.Touched); d != "" {
			t.Errorf("%s (-want +got):\n%s", change.what, d)
		}
		if len(seen.Files) != 1 || seen.Files[0].Path != mqA {
			t.Errorf("%s: files %+v", change.what, seen.Files)
		}
	}
}

// Commits of a clock that was a day late hide none, and count for none that main has.
func TestD13_ClocksThatWereLateChangeNothingOfWhatIsTouched(t *testing.T) {
	t.Parallel()
	s, c := propose(t)
	c.git("checkout", "-q", "-B", "beside", "main")
	c.commit("Order more", map[string]string{mqA: "plan: big\n"})
	c.git("merge", "-q", "-s", "ours", "-m", "Merge", "mine")
	c.late("main", time.Now().AddDate(0, 0, -1), 10)
	c.pushed("main")
	c.git("merge", "-q", "-m", "Merge", "main")
	c.late("beside", time.Now().AddDate(0, 0, -2), 1)
	c.git("reset", "-q", "--hard")
	const branch = "changes/mq/team-a/other"
	c.pushed("HEAD:" + branch)
	seen, err := s.Change(t.Context(), cluster, branch)
	want := []access.Part{{Binding: "db", Namespace: "team-a"}, {Binding: "db", Namespace: "team-b"}, {Binding: "mq", Namespace: "team-a"}}
	if d := cmp.Diff(want, seen.Touched); err != nil || d != "" {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
	// Of what is late on main, nothing is the change's.
	c.pushed("HEAD~1:refs/heads/changes/mq/team-a/less")
	seen, err = s.Change(t.Context(), cluster, "changes/mq/team-a/less")
	want = []access.Part{{Binding: "db", Namespace: "team-a"}, {Binding: "mq", Namespace: "team-a"}}
	if d := cmp.Diff(want, seen.Touched); err != nil || d != "" {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
}

// What takes long to find out is not found out: then it is all of the repository.
func TestH4_WhatAChangeTouchesIsFoundOutInTime(t *testing.T) {
	t.Parallel()
	s, c := propose(t)
	repo, _, err := s.repository(cluster)
	if err != nil {
		t.Fatal(err)
	}
	who := "committer a <alice@example.com> 1 +0000\ndata 4\nMore\n"
	for _, change := range []struct {
		what   string
		stream func(*strings.Builder)
		all    bool
	}{
		{"many-commits", func(b *strings.Builder) {
			for i := range githost.MaxChangeCommits {
				fmt.Fprintf(b, "commit %s\n%sM 100644 inline %s\ndata 3\n%03d\n", work, who, mqA, i)
			}
		}, false},
		{"many-names", func(b *strings.Builder) {
			fmt.Fprintf(b, "commit %s\n%s", work, who)
			for i := range 1000 {
				fmt.Fprintf(b, "M 100644 inline bindings/mq/claims/z%05d/x\ndata 1\nx\n", i)
			}
			for i := range 20 {
				fmt.Fprintf(b, "commit %s\n%sM 100644 inline bindings/mq/claims/z%05d/x\ndata 1\ny\n", work, who, i)
			}
		}, true},
		{"many-merges", func(b *strings.Builder) {
			for i := range maxTouchedMerges + 1 {
				fmt.Fprintf(b, "commit refs/heads/beside\n%sfrom main^0\nM 100644 inline %s\ndata 3\n%03d\n", who, mqA, i)
				fmt.Fprintf(b, "commit %s\n%smerge refs/heads/beside\nM 100644 inline %s\ndata 3\n%03d\n", work, who, mqA, i)
			}
		}, true},
	} {
		var stream strings.Builder
		fmt.Fprintf(&stream, "reset %s\nfrom main^0\n", work)
		change.stream(&stream)
		if out, err := stockGit(t, c.dir, []byte(stream.String()), "fast-import", "--quiet", "--force"); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		branch := "changes/mq/team-a/" + change.what
		c.pushed(work + ":refs/heads/" + branch)
		began := time.Now()
		seen, err := s.Change(t.Context(), cluster, branch)
		if err != nil {
			t.Fatalf("%s: %v", change.what, err)
		}
		t.Logf("%s: %v", change.what, time.Since(began))
		want := []access.Part{{Binding: "mq", Namespace: "team-a"}}
		if change.all {
			want = []access.Part{{}}
		}
		touched, err := repo.touched(t.Context(), seen.Commits, s.head(t, mainRef), 20_000)
		if d := cmp.Diff(want, touched); err != nil || d != "" || seen.Older {
			t.Errorf("%s: %v (-want +got):\n%s", change.what, err, d)
		}
	}
	// Nor does a push to main by who may write a part of it.
	rights := &shared{}
	rights.set("write mq")
	check := newCheck(t.Context(), repo, access.Caller{Role: access.Member, Rights: rights}, free)
	t.Cleanup(check.reader.close)
	push := command{mainRef, plumbing.NewHash(s.head(t, mainRef)), plumbing.NewHash(c.blob("work"))}
	if err := check.command(push, check.update); err == nil || !strings.Contains(err.Error(), "more than 32 merges are to be compared with main") {
		t.Errorf("a push of many merges: %v", err)
	}
}

// work is the branch on which the tests' changes are made.
const work = "refs/heads/work"
