package gitstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/gitstore"
	"gitbind.dev/gitbridge/store/limits"
	"gitbind.dev/gitbridge/store/storetest"
	"gitbind.dev/test/env"
)

// gitWith runs the stock program with an input.
func (h *host) gitWith(input string, args ...string) string {
	h.t.Helper()
	cmd := h.gitCommand(h.dir, args...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.Output()
	if ended := (*exec.ExitError)(nil); errors.As(err, &ended) {
		h.t.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, ended.Stderr)
	}
	return strings.TrimSpace(string(out))
}

// pathBomb is a tree of folders in each other, each of which is there twice.
func (h *host) pathBomb(levels int) string {
	h.t.Helper()
	tree := h.gitWith(fmt.Sprintf("100644 blob %s\tf\n", h.gitWith("x", "hash-object", "-w", "--stdin")), "mktree")
	for range levels {
		tree = h.gitWith(fmt.Sprintf("040000 tree %[1]s\ta\n040000 tree %[1]s\tb\n", tree), "mktree")
	}
	return tree
}

// setTree makes a tree the one of a branch, by a commit on its head.
func (h *host) setTree(branch, tree string) store.Hash {
	h.t.Helper()
	head := strings.TrimSpace(h.git("rev-parse", branch))
	commit := h.gitWith("", "-c", "user.name=alice", "-c", "user.email=alice@example.org", "commit-tree", "-p", head, "-m", "Set", tree)
	h.git("update-ref", "refs/heads/"+branch, commit)
	return store.Hash(commit)
}

// talk adds commits with long messages to main.
func (h *host) talk(commits, size int) store.Hash {
	h.t.Helper()
	var in bytes.Buffer
	message := strings.Repeat("words ", size/6+1)[:size]
	for i := range commits {
		fmt.Fprintf(&in, "commit refs/heads/main\ncommitter alice <alice@example.org> %d +0000\ndata %d\n%s\n", 1_800_000_000+i, len(message), message)
		if i == 0 {
			fmt.Fprint(&in, "from refs/heads/main^0\n")
		}
	}
	h.gitWith(in.String(), "fast-import", "--quiet")
	return store.Hash(strings.TrimSpace(h.git("rev-parse", "main")))
}

// wantLimit fails the test unless an error says that a commit has more than is read.
func wantLimit(t *testing.T, err error, head store.Hash, words string) {
	t.Helper()
	var limit *store.LimitError
	if !errors.As(err, &limit) || limit.Head != head || limit.Branch != "main" || limit.Passing || !strings.Contains(limit.Reason, words) {
		t.Errorf("error %v, want that %s is not read: %s", err, head.Short(), words)
	}
}

// allocated is how many MiB are allocated in a function.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return (after.TotalAlloc - before.TotalAlloc) >> 20
}

func TestH1_APathBombIsRefusedAndAskedForOnce(t *testing.T) {
	h := newHost(t)
	b := h.Branch("main")
	before := update(t, b, storetest.Put("bindings/x", "1"))
	bomb := h.pathBomb(20)
	bad := h.setTree("main", bomb)
	got := allocated(func() {
		_, err := b.Fetch(t.Context())
		wantLimit(t, err, bad, "more than 250000 files and folders")
		_, err = h.Branch("main").Fetch(t.Context())
		wantLimit(t, err, bad, "more than 250000 files and folders")
	})
	if got > 100 {
		t.Errorf("%d MiB were allocated", got)
	}
	if b.Snapshot().Head() != before.Head() {
		t.Errorf("what is known is at %s", b.Snapshot().Head())
	}
	requests := h.requests.Load()
	for _, hint := range []store.Hash{"", bad} {
		_, err := b.FetchTip(t.Context(), hint)
		wantLimit(t, err, bad, "more than 250000 files and folders")
	}
	if n := h.requests.Load() - requests; n != 2 {
		t.Errorf("%d requests for two more looks, want that only the head is asked for", n)
	}
	_, err := b.Update(t.Context(), storetest.Put("bindings/y", "1"))
	wantLimit(t, err, bad, "more than 250000 files and folders")

	h.Force("main", before.Head())
	if snap := fetch(t, b); snap.Head() != before.Head() {
		t.Errorf("set back: at %s", snap.Head())
	}
	h.Force("main", bad)
	good := h.setTree("main", strings.TrimSpace(h.git("rev-parse", string(before.Head())+"^{tree}")))
	if snap := fetch(t, b); snap.Head() != good || snap.Files() != 1 {
		t.Errorf("mended: at %s with %d files", snap.Head(), snap.Files())
	}
}

// Edits never make a branch that is too large to be read.
func TestH1_AnEditThatMakesATreeTooLargeIsRefused(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	b := h.Branch("main")
	update(t, b, storetest.Put("bindings/x", "1"))
	// As long a name for a path bomb as is read just so.
	paths, length := 1<<16, 33<<16
	for k := 1; k <= 16; k++ {
		paths, length = paths+1<<k, length+(2*k-1)<<k
	}
	name := strings.Repeat("n", (limits.PathBytes-length)/paths-1)
	h.setTree("main", h.gitWith(fmt.Sprintf("040000 tree %s\t%s\n", h.pathBomb(16), name), "mktree"))
	more := func(t *store.Tree) (err error) {
		for i := range 20 {
			err = errors.Join(err, t.Write(fmt.Sprintf("bindings/%d%s", i, strings.Repeat("/"+strings.Repeat("n", 250), 15)), nil))
		}
		return err
	}
	_, err := b.Update(t.Context(), store.Edit{Author: storetest.Author, Subject: "more", Apply: more})
	if !errors.Is(err, store.ErrRejected) || !strings.Contains(err.Error(), "paths of more than 32 MiB in all") {
		t.Errorf("an edit too much: %v", err)
	}
	update(t, b, storetest.Put("bindings/y", "1"))
}

func TestH2_LongMessagesAreNotRead_NoRace(t *testing.T) {
	env.NoRace(t)
	h := newHost(t)
	b := h.Branch("main")
	first := update(t, b, storetest.Put("bindings/x", "1"))
	head := h.talk(100, 1<<20)
	var err error
	got := allocated(func() {
		// The tree can be read, and what came before it is too much.
		if snap := fetch(t, b); snap.Head() != head {
			t.Errorf("at %s", snap.Head())
		}
		for range 3 {
			_, _, err = b.Log(t.Context(), first.Head(), head)
			wantLimit(t, err, head, "more than 67108864 bytes of commits")
		}
	})
	if got > 600 {
		t.Errorf("%d MiB were allocated for 100 MiB of messages, which is more than is read", got)
	}
	// A history that is long enough is still read, and each of its messages once.
	if commits, descends, err := b.Log(t.Context(), store.Hash(strings.TrimSpace(h.git("rev-parse", "main~20"))), head); err != nil || !descends || len(commits) != 20 {
		t.Errorf("20 of them: %d commits, descends: %v, %v", len(commits), descends, err)
	}

	longest := h.talk(1, 3<<20)
	for _, b := range []store.Branch{b, h.Branch("main")} {
		_, err = b.Fetch(t.Context())
		wantLimit(t, err, longest, "a commit of")
	}
	if _, err := h.open(gitstore.Options{}).Branch("main").Fetch(t.Context()); err == nil {
		t.Error("it is read")
	}
}
