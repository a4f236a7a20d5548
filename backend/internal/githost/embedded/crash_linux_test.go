package embedded

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/test/env"
)

// crashed is what a host does in another process, which ends anywhere.
type crashed struct {
	// root is a folder in which the host's is "git". What it does is in files beside it,
	// and the answer to it becomes the file "answer".
	root   string
	victim string
	// judge opens a host in a root that was left, and says what is wrong there.
	judge func(t *testing.T, root string, answered bool) (wrong string)
}

// newRoot is the path of a root, in memory if that can be: it is synced often, and what
// that does is simulated.
func newRoot(t *testing.T) string {
	t.Helper()
	dir, remove, err := env.MkdirTemp("/dev/shm", "gitbind-crash-")
	if err == nil {
		t.Cleanup(func() { _ = remove() })
	} else if dir, err = filepath.EvalSymlinks(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "root")
}

// rootOf is a root with one repository.
func rootOf(t *testing.T, s *served) string {
	t.Helper()
	root := newRoot(t)
	if err := os.CopyFS(filepath.Join(root, "git", cluster+".git"), os.DirFS(s.bare())); err != nil {
		t.Fatal(err)
	}
	return root
}

// openAfterCrash opens a host.
func openAfterCrash(t *testing.T, root string) *Host {
	t.Helper()
	h := newHost(t, Config{
		Dir: filepath.Join(root, "git"), Authenticator: passwords{},
		Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError})),
	})
	// No start is as soon after an end as in a test.
	h.started = time.Now().Add(time.Second)
	return h
}

// repositoryAfterCrash opens a host and its repository, which must be whole, and says where main is.
func repositoryAfterCrash(t *testing.T, root string) (h *Host, repo *repository, main plumbing.Hash, wrong string) {
	t.Helper()
	h = openAfterCrash(t, root)
	repo, ok, err := h.repository(cluster)
	if err != nil || !ok {
		return nil, nil, main, fmt.Sprintf("the repository is gone: %v", err)
	}
	if wrong := fsck(t, repo.dir); wrong != "" {
		return nil, nil, main, wrong
	}
	if main, err = readRef(repo.dir, mainRef); err != nil {
		return nil, nil, main, err.Error()
	}
	return h, repo, main, ""
}

// beVictim does in this process what is to be ended, and writes that it is answered.
func beVictim(t *testing.T, do func(h *Host, root string)) {
	t.Helper()
	root := os.Getenv(victimRoot)
	if root == "" {
		t.Skip("only other tests run it, in another process")
	}
	do(openAfterCrash(t, root), root)
	write(t, filepath.Join(root, "answer"), []byte("done"))
}

// answered says whether these changes end after the answer.
func answered(changes []change) bool {
	return slices.ContainsFunc(changes, func(c change) bool { return c.Path == "answer" })
}

// trace runs the victim in a copy of the root to its end, or to one of its changes.
func (c *crashed) trace(t *testing.T, kill int) (changes []change, root string) {
	t.Helper()
	root = newRoot(t)
	if err := os.CopyFS(root, os.DirFS(c.root)); err != nil {
		t.Fatal(err)
	}
	changes = traced{Root: root, Victim: c.victim, Kill: kill}.run(t)
	if kill > 0 {
		return changes, root
	}
	// What was not seen would not be tested.
	d, err := newDisk(c.root)
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range changes {
		d.do(change)
	}
	seen := d.seen()
	have, err := filesIn(root)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range have {
		if got, ok := seen[path]; !ok || got != want {
			t.Fatalf("the trace does not explain %s: %q, want %q", path, got, want)
		}
	}
	if len(have) != len(seen) || !answered(changes) {
		t.Fatalf("the trace is not whole: %v", changes)
	}
	return changes, root
}

// crash is a state in which a disk may be left, and the last that was done before.
type crash struct {
	files    files
	answered bool
	last     change
}

// crashes are all states of the disk after a kill or a power cut anywhere, each of them once.
func (c *crashed) crashes(t *testing.T, changes []change, ordered bool) []crash {
	t.Helper()
	d, err := newDisk(c.root)
	if err != nil {
		t.Fatal(err)
	}
	d.ordered = ordered
	var all []crash
	known := map[string]int{}
	for i := range len(changes) + 1 {
		last := change{}
		if i > 0 {
			last = changes[i-1]
			d.do(last)
		}
		for _, state := range append(d.afterPowerCut(), d.seen()) {
			delete(state, "answer")
			delete(state, "git/gitconfig") // each start writes it
			name := fmt.Sprint(state)      // in the order of the paths
			at, ok := known[name]
			if !ok {
				at = len(all)
				known[name] = at
				all = append(all, crash{files: state})
			}
			all[at].last, all[at].answered = last, all[at].answered || answered(changes[:i])
		}
	}
	return all
}

// in makes the state, and judges it.
func (c *crashed) in(t *testing.T, state crash) (wrong string) {
	t.Helper()
	root := newRoot(t)
	if err := os.MkdirAll(root, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := state.files.in(root); err != nil {
		t.Fatal(err)
	}
	return c.judge(t, root, state.answered)
}

// everywhere judges all states in which a kill or a power cut may leave the disk.
func (c *crashed) everywhere(t *testing.T, ordered bool) {
	t.Helper()
	changes, _ := c.trace(t, 0)
	states := c.crashes(t, changes, ordered)
	t.Logf("%d changes, %d states", len(changes), len(states))
	for i, state := range states {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			if wrong := c.in(t, state); wrong != "" {
				t.Errorf("after %s: %s", state.last, wrong)
			}
		})
	}
}

func fsck(t *testing.T, dir string) (wrong string) {
	t.Helper()
	out, err := stockGit(t, dir, nil, "fsck", "--full", "--strict")
	if err != nil || strings.Contains(out, "error") || strings.Contains(out, "missing") {
		return fmt.Sprintf("git fsck: %v\n%s", err, out)
	}
	return ""
}

// leftovers are sets of files that git removed, by their names. It takes its time.
type leftovers struct{ sync.Map }

// removed has git remove what nobody needs, and says what stays.
func (l *leftovers) removed(t *testing.T, h *Host, repo *repository) (wrong string) {
	t.Helper()
	left, wrong := leftIn(repo.dir)
	if wrong != "" || left == "" {
		return wrong
	}
	if _, known := l.LoadOrStore(left, true); known {
		return ""
	}
	h.now = func() time.Time { return time.Now().Add(keepLost + time.Hour) }
	h.repackOne(context.WithoutCancel(t.Context()), repo)
	if left, wrong := leftIn(repo.dir); left+wrong != "" {
		return "it stays for ever: " + left + wrong
	}
	return fsck(t, repo.dir)
}

// leftIn are the files that git removes when they are old. Others are wrong.
func leftIn(dir string) (left, wrong string) {
	have, err := filesIn(dir)
	if err != nil {
		return "", err.Error()
	}
	for _, path := range slices.Sorted(maps.Keys(have)) {
		name, kind := filepath.Base(path), filepath.Ext(path)
		switch {
		case kind == ".lock" || kind == ".keep" || halfPack(filepath.Join(dir, path)):
			return "", "it stays for ever: " + path
		case strings.HasPrefix(name, "tmp"):
			left += path + " "
		}
	}
	return left, ""
}

// crashedPush is a push that the host takes itself, or leaves to git.
func crashedPush(t *testing.T, toGit bool) *crashed {
	t.Helper()
	b := newBased(t)
	first, second := &objects{}, &objects{}
	name := "100644 one"
	if toGit {
		name = "100644 .left-to-git"
	}
	pushed := b.change(first, first.tree(name, first.blob("3\n")))
	body := pushBody(b.head, pushed, handmadePack(first.entries...))
	if b.directly(t, body) == toGit {
		t.Fatal("another one takes it, so this shows nothing")
	}
	next := second.commit(b.in(second, second.tree("100644 one", second.blob("4\n"))), pushed)
	nextBody := pushBody(pushed, next, handmadePack(second.entries...))
	root := rootOf(t, b.served)
	write(t, filepath.Join(root, "push"), body)
	left := &leftovers{}
	return &crashed{root, "TestPushVictim", func(t *testing.T, root string, answered bool) string {
		h, repo, head, wrong := repositoryAfterCrash(t, root)
		if wrong != "" {
			return wrong
		}
		switch {
		case head.String() == pushed:
		case head.String() != b.head:
			return "main is at " + head.String()
		case answered:
			return "the push was acknowledged and is lost"
		default:
			if answer := pushTo(t, h, body); !strings.Contains(answer, "ok "+mainRef) {
				return fmt.Sprintf("pushed again: %q", answer)
			}
		}
		if answer := pushTo(t, h, nextBody); !strings.Contains(answer, "ok "+mainRef) {
			return fmt.Sprintf("the next push: %q", answer)
		}
		if head, err := readRef(repo.dir, mainRef); err != nil || head.String() != next {
			return fmt.Sprintf("after the next push main is at %s, %v", head, err)
		}
		return left.removed(t, h, repo)
	}}
}

func pushTo(t *testing.T, h *Host, body []byte) (answer string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/git/"+cluster+".git/git-receive-pack", bytes.NewReader(body))
	r.SetBasicAuth("owner", "owner-"+cluster)
	r.Header.Set("Content-Type", "application/x-git-receive-pack-request")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Body.String()
}

// TestPushVictim is no test of its own.
func TestPushVictim(t *testing.T) {
	beVictim(t, func(h *Host, root string) {
		body, err := os.ReadFile(filepath.Join(root, "push"))
		if err != nil {
			t.Fatal(err)
		}
		if answer := pushTo(t, h, body); !strings.Contains(answer, "ok "+mainRef) {
			t.Fatal(answer)
		}
	})
}

// TestAPushIsWholeWhereverTheHostIsKilled: before each system call that changes a file.
func TestAPushIsWholeWhereverTheHostIsKilled(t *testing.T) {
	t.Parallel()
	c := crashedPush(t, false)
	changes, _ := c.trace(t, 0)
	for _, next := range changes {
		t.Run(fmt.Sprint(next.Number), func(t *testing.T) {
			t.Parallel()
			done, root := c.trace(t, next.Number)
			if n := len(done); n > 0 && done[n-1].Number >= next.Number {
				t.Fatalf("it was not killed before %s: %v", next, done)
			}
			if wrong := c.judge(t, root, answered(done)); wrong != "" {
				t.Errorf("before %s: %s", next, wrong)
			}
		})
	}
}

// TestAPushIsWholeWhereverThePowerIsCut: whatever the disk lost of what was not synced.
func TestAPushIsWholeWhereverThePowerIsCut(t *testing.T) {
	t.Parallel()
	crashedPush(t, false).everywhere(t, false)
}

// TestEachSyncOfAPushIsNeeded: without any of them a power cut does harm, which is seen.
func TestEachSyncOfAPushIsNeeded(t *testing.T) {
	t.Parallel()
	c := crashedPush(t, false)
	changes, _ := c.trace(t, 0)
	syncs := 0
	for i, sync := range changes {
		if sync.Call != "sync" {
			continue
		}
		syncs++
		t.Run(fmt.Sprint(sync.Number), func(t *testing.T) {
			t.Parallel()
			states := c.crashes(t, slices.Delete(slices.Clone(changes), i, i+1), false)
			slices.Reverse(states) // the worst are the last
			for _, state := range states {
				if wrong := c.in(t, state); wrong != "" {
					t.Logf("without %s: %s", sync, wrong)
					return
				}
			}
			t.Errorf("without %s nothing is wrong", sync)
		})
	}
	if syncs != 5 {
		t.Errorf("%d syncs, want those of the pack, its index, the branch and their folders", syncs)
	}
}

// TestAPushByGitIsWholeWhereverItEnds. In which order names reach the disk before the
// answer, git leaves to the file system.
func TestAPushByGitIsWholeWhereverItEnds(t *testing.T) {
	t.Parallel()
	crashedPush(t, true).everywhere(t, true)
}

// TestAMergeIsWholeWhereverItEnds: that of a change that somebody approves.
func TestAMergeIsWholeWhereverItEnds(t *testing.T) {
	t.Parallel()
	s := serve(t)
	clone := s.clone(t, access.Owner)
	clone.commit("Make it large", map[string]string{claimPath: "plan: large\n"})
	clone.pushed("HEAD:" + proposed)
	seen := s.look(t)
	merge := githost.Merge{Branch: seen.Branch, Head: seen.Head, Effect: seen.Effect, By: bob, At: reviewed}
	arg, err := json.Marshal(merge)
	if err != nil {
		t.Fatal(err)
	}
	before := s.head(t, mainRef)
	left := &leftovers{}
	c := &crashed{rootOf(t, s), "TestMergeVictim", func(t *testing.T, root string, answered bool) string {
		h, repo, head, wrong := repositoryAfterCrash(t, root)
		if wrong != "" {
			return wrong
		}
		if head.String() == before {
			if answered {
				return "the merge was acknowledged and is lost"
			}
			if _, err := h.Merge(t.Context(), cluster, merge); err != nil {
				return fmt.Sprintf("merged again: %v", err)
			}
		}
		now, err := readRef(repo.dir, mainRef)
		if err != nil {
			return err.Error()
		}
		merged, err := repo.isAncestor(t.Context(), plumbing.NewHash(seen.Head), now)
		if !merged || err != nil {
			return fmt.Sprintf("main is at %s: %v", now, err)
		}
		return left.removed(t, h, repo)
	}}
	write(t, filepath.Join(c.root, "merge"), arg)
	c.everywhere(t, true)
}

// TestMergeVictim is no test of its own.
func TestMergeVictim(t *testing.T) {
	beVictim(t, func(h *Host, root string) {
		b, err := os.ReadFile(filepath.Join(root, "merge"))
		if err != nil {
			t.Fatal(err)
		}
		var merge githost.Merge
		if err := json.Unmarshal(b, &merge); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Merge(t.Context(), cluster, merge); err != nil {
			t.Fatal(err)
		}
	})
}

// TestARepositoryIsWholeOrNotThereWhereverItsMakingEnds: nobody finds half of one.
func TestARepositoryIsWholeOrNotThereWhereverItsMakingEnds(t *testing.T) {
	t.Parallel()
	c := &crashed{newRoot(t), "TestCreateVictim", func(t *testing.T, root string, answered bool) string {
		h := openAfterCrash(t, root)
		repo, ok, err := h.repository(cluster)
		if err != nil {
			return err.Error()
		}
		if answered && !ok {
			return "the repository was acknowledged and is lost"
		}
		if left, _ := filepath.Glob(filepath.Join(root, "git", newPrefix+"*")); len(left) > 0 {
			return fmt.Sprintf("left: %v", left)
		}
		if !ok {
			return "" // as before
		}
		if head, err := readRef(repo.dir, mainRef); err != nil || head.IsZero() {
			return fmt.Sprintf("main is at %s, %v", head, err)
		}
		if err := h.Create(t.Context(), cluster); err != nil {
			return fmt.Sprintf("created again: %v", err)
		}
		return fsck(t, repo.dir)
	}}
	if err := os.MkdirAll(filepath.Join(c.root, "git"), 0o700); err != nil {
		t.Fatal(err)
	}
	c.everywhere(t, true)
}

// TestCreateVictim is no test of its own.
func TestCreateVictim(t *testing.T) {
	beVictim(t, func(h *Host, _ string) {
		if err := h.Create(t.Context(), cluster); err != nil {
			t.Fatal(err)
		}
	})
}
