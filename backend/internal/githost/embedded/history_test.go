package embedded

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/backend/internal/githost"
)

const (
	folder = "bindings/databases.example.com/claims"
	orders = folder + "/team-a/orders.yaml"
)

// TestHistoryReadsWhatWasPushed walks through a file's life.
func TestHistoryReadsWhatWasPushed(t *testing.T) {
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
		files, err := s.List(ctx, cluster, revision, folder)
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
	if files, err := s.List(ctx, cluster, "main", folder); err != nil || len(files) != 0 {
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
	s := serve(t)
	ctx := t.Context()
	for _, path := range []string{"", "/etc/passwd", "../" + other + ".git/HEAD", "a/../b", "a//b", "./a", "a/", "a\nrefs/heads/main:README.md", "a\x00b", "a\xff", "a\u0085b", strings.Repeat("a", 5000)} {
		if _, _, err := s.Read(ctx, cluster, "main", path); err == nil || errors.Is(err, githost.ErrNotFound) {
			t.Errorf("read %q: %v", path, err)
		}
		if _, err := s.List(ctx, cluster, "main", path); err == nil {
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
		if files, err := s.List(ctx, cluster, "main", path); err != nil || len(files) != 0 {
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
	files, err := s.List(ctx, cluster, "main", folder)
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
