package gitstore_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/gitstore"
	"gitbind.dev/gitbridge/store/storetest"
)

// clone is a person's, with the stock program.
func (h *host) clone() string {
	h.t.Helper()
	dir := filepath.Join(h.t.TempDir(), "clone")
	h.git("clone", "-q", h.url, dir)
	return dir
}

func (h *host) write(path, content string, mode os.FileMode) {
	h.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		h.t.Fatal(err)
	}
}

func update(t *testing.T, b store.Branch, e store.Edit) *store.Snapshot {
	t.Helper()
	snap, err := b.Update(t.Context(), e)
	if err != nil {
		t.Fatalf("%s: %v", e.Subject, err)
	}
	return snap
}

func fetch(t *testing.T, b store.Branch) *store.Snapshot {
	t.Helper()
	snap, err := b.Fetch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

func TestWhatPeoplePutInATreeIsShownAndKept(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	defer h.check()
	b := h.Branch("main")
	update(t, b, storetest.Put("bindings/b/claims/ns/x.yaml", "x"))
	dir := h.clone()
	large := strings.Repeat("0123456789abcdef", store.MaxFile/16)
	h.write(filepath.Join(dir, "bindings/large"), large+"x", 0o644)
	h.write(filepath.Join(dir, "bindings/largest kept"), large, 0o644)
	h.write(filepath.Join(dir, "bindings/run"), "#!/bin/sh", 0o755)
	h.write(filepath.Join(dir, "bindings/new\nline ü"), "odd", 0o644)
	if err := os.Symlink("../../etc/passwd", filepath.Join(dir, "bindings/link")); err != nil {
		t.Fatal(err)
	}
	h.gitIn(dir, "add", ".")
	h.gitIn(dir, "update-index", "--add", "--cacheinfo", "160000,"+strings.Repeat("1", 40)+",bindings/module")
	h.gitIn(dir, "commit", "-q", "-m", "Add what does not belong here")
	h.gitIn(dir, "push", "-q")

	check := func(snap *store.Snapshot) {
		t.Helper()
		var got []string
		for e := range snap.List("bindings") {
			_, err := snap.Read(e.Path)
			readable := "readable"
			if err != nil {
				readable = "not readable"
			}
			got = append(got, fmt.Sprintf("%q: %s of %d, %s", strings.TrimPrefix(e.Path, "bindings/"), e.Mode, e.Size, readable))
		}
		want := []string{
			`"b/claims/ns/x.yaml": regular file of 1, readable`,
			`"large": regular file of 1048577, not readable`,
			`"largest kept": regular file of 1048576, readable`,
			`"link": symbolic link of 16, readable`,
			`"module": submodule of 0, not readable`,
			`"new\nline ü": regular file of 3, readable`,
			`"run": executable of 9, readable`,
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %q", got)
		}
		if _, err := snap.Read("bindings/large"); !errors.Is(err, store.ErrTooLarge) {
			t.Errorf("large: %v", err)
		}
	}
	check(fetch(t, b))
	check(fetch(t, h.Branch("main")))
	// Our own commits change nothing of it.
	update(t, b, storetest.Put("bindings/zz", "z"))
	if got := h.git("diff-tree", "--name-status", "-r", "main~", "main"); got != "A\tbindings/zz\n" {
		t.Errorf("our commit changes %q", got)
	}
	h.gitIn(dir, "pull", "-q", "--rebase")
}

// The parents of a merge bring their trees with them, all that there ever were.
func TestAMergeOfWhatBeganLongAgoDoesNotBringItsHistory(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	defer h.check()
	writer, repository := h.Branch("main"), h.open(gitstore.Options{})
	repository.SetIncrement(20)
	reader := repository.Branch("main")
	long := func(i int) store.Edit {
		return storetest.Put(fmt.Sprint("ns/", i), strings.Repeat(fmt.Sprintf("%d ", i*i), 200))
	}
	for i := range 15 {
		update(t, writer, long(i))
	}
	dir := h.clone()
	for i := range 15 {
		update(t, writer, long(i+15))
	}
	known := fetch(t, reader).Head()
	h.write(filepath.Join(dir, "by-a-person"), "1", 0o644)
	h.gitIn(dir, "add", ".")
	h.gitIn(dir, "commit", "-q", "-m", "Begun long ago")
	old := strings.TrimSpace(h.gitIn(dir, "rev-parse", "HEAD"))
	h.gitIn(dir, "pull", "-q", "--no-rebase", "--no-edit")
	h.gitIn(dir, "push", "-q")

	received := h.count(func() {
		if snap := fetch(t, reader); snap.Files() != 31 {
			t.Errorf("%d files", snap.Files())
		}
	})
	// Asked where it is, given up, and asked for the one commit.
	if got := fmt.Sprint(received.requests); got != "3" || received.bytes > 10_000 {
		t.Errorf("%s requests, %d bytes for one new file", got, received.bytes)
	}
	head := reader.Snapshot().Head()
	for _, b := range []store.Branch{reader, h.Branch("main")} {
		commits, descends, err := b.Log(t.Context(), known, head)
		if err != nil || !descends {
			t.Fatalf("descends: %v, %v", descends, err)
		}
		if len(commits) != 2 || commits[0].Hash != head || string(commits[1].Hash) != old || commits[1].Author.Name != "alice" || commits[1].Message != "Begun long ago\n" {
			t.Errorf("log %+v", commits)
		}
	}
	// A host that does not filter sends more, and the answer is the same.
	h.git("config", "uploadpack.allowFilter", "false")
	commits, descends, err := h.Branch("main").Log(t.Context(), known, head)
	if err != nil || !descends || len(commits) != 2 {
		t.Errorf("without a filter: %v, %v, %v", commits, descends, err)
	}
}

// What is declared shallow is not taken for more than it is: nothing has to be
// asked for twice, even if the remote has bitmaps.
func TestContentThatComesBackIsSentAtOnce(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	writer, reader := h.Branch("main"), h.open(gitstore.Options{TrustHints: true}).Branch("main")
	update(t, writer, storetest.Put("ns/other", "1"))
	fetch(t, reader)
	for _, content := range []string{"a", "b", "a", "b"} {
		tip := update(t, writer, storetest.Put("ns/x", content)).Head()
		h.Collect()
		got := h.count(func() {
			if _, err := reader.FetchTip(t.Context(), tip); err != nil {
				t.Error(err)
			}
		})
		if got.requests != 1 {
			t.Errorf("%d requests", got.requests)
		}
	}
}

// Who can forge an event must not get a commit applied that nobody merged.
func TestAForgedHintDoesNotMoveTheBranch(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.git("config", "uploadpack.allowAnySHA1InWant", "true")
	reader := h.Branch("main")
	merged := update(t, h.Branch("main"), storetest.Put("x", "merged"))
	fetch(t, reader)
	dir := h.clone()
	h.write(filepath.Join(dir, "x"), "proposed", 0o644)
	h.gitIn(dir, "commit", "-q", "-a", "-m", "Proposed")
	h.gitIn(dir, "push", "-q", "origin", "HEAD:refs/heads/changes/x")
	proposed := store.Hash(strings.TrimSpace(h.gitIn(dir, "rev-parse", "HEAD")))
	snap, err := reader.FetchTip(t.Context(), proposed)
	if err != nil || snap.Head() != merged.Head() {
		t.Errorf("at %s, %v", snap.Head(), err)
	}
}

type traffic struct {
	requests int
	bytes    int
}

// count counts requests, and what was received for them.
func (h *host) count(during func()) (n traffic) {
	h.set(func() { h.intercept = h.counting(&n) })
	during()
	h.set(func() { h.intercept = nil })
	return n
}

func (h *host) counting(n *traffic) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		n.requests++
		h.backend.ServeHTTP(&counted{w, &n.bytes}, r)
		return true
	}
}

// counted is an answer that counts what could be sent of it.
type counted struct {
	http.ResponseWriter
	n *int
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	*c.n += n
	return n, err
}

func TestRequestsAreFew(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	writer, reader := h.Branch("main"), h.open(gitstore.Options{TrustHints: true}).Branch("main")
	careful := h.Branch("main")
	first := update(t, writer, storetest.Put("x", "0"))
	fetch(t, reader)
	fetch(t, careful)
	for _, c := range []struct {
		name string
		want int64
		do   func()
	}{
		{"a push", 1, func() { first = update(t, writer, storetest.Put("x", "1")) }},
		{"an edit that changes nothing", 0, func() { update(t, writer, storetest.Put("x", "1")) }},
		{"a fetch with a trusted hint", 1, func() {
			if snap, err := reader.FetchTip(t.Context(), first.Head()); err != nil || snap.Head() != first.Head() {
				t.Error(err)
			}
		}},
		{"a fetch with a hint from elsewhere", 2, func() {
			if snap, err := careful.FetchTip(t.Context(), first.Head()); err != nil || snap.Head() != first.Head() {
				t.Error(err)
			}
		}},
		{"a hint for what is known", 0, func() {
			if _, err := reader.FetchTip(t.Context(), first.Head()); err != nil {
				t.Error(err)
			}
		}},
		{"what is between two commits that went by", 0, func() {
			if commits, descends, err := reader.Log(t.Context(), first.Commit().Parents[0], first.Head()); err != nil || !descends || len(commits) != 1 {
				t.Error(commits, descends, err)
			}
		}},
		{"a fetch of nothing new", 1, func() { fetch(t, reader) }},
	} {
		before := h.requests.Load()
		c.do()
		if got := h.requests.Load() - before; got != c.want {
			t.Errorf("%s: %d requests, want %d", c.name, got, c.want)
		}
	}
	before := h.connections.Load()
	for i := range 20 {
		update(t, writer, storetest.Put("x", fmt.Sprint("connection ", i)))
		fetch(t, reader)
	}
	if n := h.connections.Load() - before; n > 0 {
		t.Errorf("%d new connections", n)
	}
}

// What is too large to keep is not even sent, and what comes with it is there at
// once; also where a host does not leave out files, or allows other filters only.
func TestFilesTooLargeToKeepAreNotFetched(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		key, value string
		sent       bool
	}{
		"left out":       {"uploadpack.allowFilter", "true", false},
		"no filters":     {"uploadpack.allowFilter", "false", true},
		"another filter": {"uploadpackfilter.blob:limit.allow", "false", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			h.git("config", c.key, c.value)
			b := h.Branch("main")
			update(t, b, storetest.Put("bindings/b/claims/ns/x.yaml", "x"))
			dir := h.clone()
			for i := range 3 {
				data := make([]byte, store.MaxFile+1)
				_, _ = rand.NewChaCha8([32]byte{byte(i)}).Read(data)
				h.write(filepath.Join(dir, fmt.Sprint("large-", i)), string(data), 0o644)
			}
			h.write(filepath.Join(dir, "good"), "good", 0o644)
			h.gitIn(dir, "add", ".")
			h.gitIn(dir, "commit", "-q", "-m", "Add large files")
			h.gitIn(dir, "-c", "http.postBuffer=16777216", "push", "-q")
			got := h.count(func() {
				snap := fetch(t, b)
				if data, err := snap.Read("good"); string(data) != "good" || err != nil {
					t.Errorf("%q, %v", data, err)
				}
				if _, err := snap.Read("large-2"); !errors.Is(err, store.ErrTooLarge) || snap.Files() != 5 {
					t.Errorf("%d files: %v", snap.Files(), err)
				}
			})
			if sent := got.bytes > store.MaxFile; sent != c.sent {
				t.Errorf("%d bytes were sent", got.bytes)
			}
		})
	}
}
