package embedded

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/limits"
)

// counted counts what a Host says of its requests.
type counted struct {
	mu sync.Mutex
	by map[string]int
}

func (c *counted) count(service, by string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil {
		c.by = map[string]int{}
	}
	c.by[service+" "+by]++
}

// take gives what was counted, and starts again from zero.
func (c *counted) take() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	by := c.by
	c.by = nil
	return by
}

func serveCounted(t testing.TB) (*served, *counted) {
	t.Helper()
	c := &counted{}
	return serve(t, func(cfg *Config) { cfg.Served = c.count }), c
}

// objects are made by hand for a push.
type objects struct{ entries []packEntry }

func (o *objects) add(typ byte, data string) string {
	o.entries = append(o.entries, packEntry{typ: typ, data: []byte(data)})
	return plumbing.ComputeHash(plumbing.ObjectType(typ), []byte(data)).String()
}

func (o *objects) blob(data string) string { return o.add(typeBlob, data) }

// delta makes an object of a type by a delta on another one, of baseSize bytes.
func (o *objects) delta(typ byte, base string, baseSize int, data string) string {
	ref, _ := hex.DecodeString(base)
	o.entries = append(o.entries, packEntry{typ: typeRefDelta, ref: ref, data: insert(baseSize, data)})
	return plumbing.ComputeHash(plumbing.ObjectType(typ), []byte(data)).String()
}

// tree makes a folder of "<mode> <name>" and hash, in this order.
func (o *objects) tree(entries ...string) string {
	var b strings.Builder
	for i := 0; i < len(entries); i += 2 {
		hash, _ := hex.DecodeString(entries[i+1])
		b.WriteString(entries[i] + "\x00" + string(hash))
	}
	return o.add(typeTree, b.String())
}

const person = "alice <alice@example.com> 1700000000 +0000"

func (o *objects) commit(tree string, parents ...string) string {
	return o.add(typeCommit, commitText(tree, person, person, "\n\nmessage\n", parents...))
}

func commitText(tree, author, committer, rest string, parents ...string) string {
	text := "tree " + tree + "\n"
	for _, p := range parents {
		text += "parent " + p + "\n"
	}
	return text + "author " + author + "\ncommitter " + committer + rest
}

// elsewhere is a submodule's commit, which the repository does not have.
const elsewhere = "5555555555555555555555555555555555555555"

// based is a repository in which main has two files in one folder, one of them in its
// second version, with a link and a submodule.
type based struct {
	*served
	head, root       string
	readme, old, one string
	two              string
	// folder is f, which has folderSize bytes.
	folder     string
	folderSize int
}

func newBased(t *testing.T) *based {
	t.Helper()
	b := &based{served: serve(t)}
	c := b.clone(t, access.Owner)
	c.commit("first", map[string]string{"f/one": "1\n"})
	b.old = strings.TrimSpace(c.git("rev-parse", "HEAD:f/one"))
	c.commit("second", map[string]string{"f/one": "one\n", "f/two": "2\n"})
	c.git("update-index", "--add", "--cacheinfo", "160000,"+elsewhere+",f/module",
		"--cacheinfo", "120000,"+strings.TrimSpace(c.git("rev-parse", "HEAD:f/two"))+",f/link")
	c.git("commit", "-q", "-m", "third")
	c.pushed("main")
	b.head = strings.TrimSpace(c.git("rev-parse", "HEAD"))
	b.root = strings.TrimSpace(c.git("rev-parse", "HEAD^{tree}"))
	b.readme = strings.TrimSpace(c.git("rev-parse", "HEAD:README.md"))
	b.one = strings.TrimSpace(c.git("rev-parse", "HEAD:f/one"))
	b.two = strings.TrimSpace(c.git("rev-parse", "HEAD:f/two"))
	b.folder = strings.TrimSpace(c.git("rev-parse", "HEAD:f"))
	if _, err := fmt.Sscan(c.git("cat-file", "-s", b.folder), &b.folderSize); err != nil {
		t.Fatal(err)
	}
	return b
}

// in is a root with the folder f.
func (b *based) in(o *objects, f string) string {
	return o.tree("100644 README.md", b.readme, "40000 f", f)
}

// one change is a commit with this folder f, on main.
func (b *based) change(o *objects, f string) string { return o.commit(b.in(o, f), b.head) }

// directly says whether the host itself would take a push.
func (b *based) directly(t *testing.T, body []byte) bool {
	t.Helper()
	repo, _, err := b.repository(cluster)
	if err != nil {
		t.Fatal(err)
	}
	in := bytes.NewReader(body)
	req, err := parsePushRequest(in)
	if err != nil {
		t.Fatal(err)
	}
	packAt := len(body) - in.Len()
	c := newCheck(t.Context(), repo, access.Caller{Role: access.Owner, Cluster: cluster}, free)
	defer c.reader.close()
	if err := c.push(req, in, int64(in.Len())); err != nil {
		return false
	}
	_, ok := c.direct(req, body[packAt:])
	return ok
}

// byGit says whether git takes a push, in a copy of the repository.
func (b *based) byGit(t *testing.T, body []byte) (ok bool, answer string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "copy.git")
	if err := os.CopyFS(dir, os.DirFS(b.bare())); err != nil {
		t.Fatal(err)
	}
	repo := &repository{dir: dir, git: b.git}
	out, _, err := repo.receivePack(t.Context(), access.Caller{Role: access.Owner}, &pushRequest{Commands: []command{{Ref: mainRef}}}, bytes.NewReader(body))
	return err == nil && strings.Contains(string(out), "ok "+mainRef), string(out)
}

// TestTheHostTakesNothingThatGitWouldRefuse: what the host takes by itself, git takes, too;
// of what git takes, the host may leave something to it.
func TestTheHostTakesNothingThatGitWouldRefuse(t *testing.T) {
	t.Parallel()
	b := newBased(t)
	tree := func(f func(o *objects) string) func(*objects) string {
		return func(o *objects) string { return b.change(o, f(o)) }
	}
	file := func(name string) func(*objects) string {
		return tree(func(o *objects) string { return o.tree("100644 "+name, o.blob("x\n")) })
	}
	commit := func(author, committer, rest string) func(*objects) string {
		return func(o *objects) string {
			return o.add(typeCommit, commitText(b.in(o, o.tree("100644 one", o.blob("x\n"))), author, committer, rest, b.head))
		}
	}
	for _, c := range []struct {
		name      string
		push      func(o *objects) (head string)
		host, git bool
	}{
		{"a changed file", tree(func(o *objects) string { return o.tree("100644 one", o.blob("3\n"), "100644 two", b.two) }), true, true},
		{"a new file", tree(func(o *objects) string {
			return o.tree("100644 one", b.one, "100755 three", o.blob("3\n"), "100644 two", b.two)
		}), true, true},
		{"a folder that is gone", func(o *objects) string { return o.commit(o.tree("100644 README.md", b.readme), b.head) }, true, true},
		{"a new folder", tree(func(o *objects) string {
			return o.tree("40000 g", o.tree("40000 h", o.tree("100644 i", o.blob("i"))), "100644 one", b.one)
		}), true, true},
		{"two commits", func(o *objects) string {
			return o.commit(b.in(o, o.tree("100644 one", b.one)), b.change(o, o.tree("100644 one", b.one, "100644 two", o.blob("4"))))
		}, true, true},
		{"the same files", func(o *objects) string { return o.commit(b.root, b.head) }, true, true},
		{"a merge of the push", func(o *objects) string {
			left := b.change(o, o.tree("100644 one", o.blob("left")))
			return o.commit(b.in(o, o.tree("100644 one", b.one, "100644 two", o.blob("merged"))), b.head, left)
		}, true, true},
		{"a file from an older commit", tree(func(o *objects) string { return o.tree("100644 one", b.old) }), false, true},
		{"a file that moved", tree(func(o *objects) string { return o.tree("100644 moved", b.one) }), false, true},
		{"a file as a delta on the one before", tree(func(o *objects) string { return o.tree("100644 one", o.delta(typeBlob, b.one, len("one\n"), "3\n")) }), true, true},
		{"a file as a delta on another one", tree(func(o *objects) string { return o.tree("100644 one", o.delta(typeBlob, b.old, len("1\n"), "3\n")) }), true, true},
		{"a file as a delta on one of the push", tree(func(o *objects) string {
			three := o.delta(typeBlob, plumbing.ComputeHash(plumbing.BlobObject, []byte("4\n")).String(), len("4\n"), "3\n")
			return o.tree("100644 one", three, "100644 two", o.blob("4\n"))
		}), true, true},
		{"a folder as a delta on the one before", tree(func(o *objects) string {
			whole := &objects{}
			whole.tree("100644 one", o.blob("3\n"), "100644 two", b.two)
			return o.delta(typeTree, b.folder, b.folderSize, string(whole.entries[0].data))
		}), true, true},
		{"a file twice", tree(func(o *objects) string {
			o.blob("3\n")
			return o.tree("100644 one", o.blob("3\n"))
		}), false, false},
		{"a file twice, once as a delta", tree(func(o *objects) string {
			o.delta(typeBlob, b.one, len("one\n"), "3\n")
			return o.tree("100644 one", o.blob("3\n"))
		}), false, false},
		{"a file as a delta on one that is missing", tree(func(o *objects) string {
			return o.tree("100644 one", o.delta(typeBlob, strings.Repeat("1", 40), 4, "3\n"))
		}), false, false},
		{"a file as a delta on one of another size", tree(func(o *objects) string {
			return o.tree("100644 one", o.delta(typeBlob, b.one, len("one\n")+1, "3\n"))
		}), false, false},
		{"a file as a delta on a folder", tree(func(o *objects) string {
			return o.tree("100644 one", o.delta(typeBlob, b.folder, b.folderSize, "3\n"))
		}), false, false},
		{"a delta that is not needed", tree(func(o *objects) string {
			o.delta(typeBlob, b.one, len("one\n"), "3\n")
			return o.tree("100644 one", b.one)
		}), false, true},
		{"a delta on a file of many bytes", tree(func(o *objects) string {
			large := strings.Repeat("x", maxPlain)
			return o.tree("100644 one", o.delta(typeBlob, o.blob(large), len(large), "3\n"), "100644 two", b.two)
		}), false, true},
		{"a commit without parents", func(o *objects) string { return o.commit(b.root) }, false, false},
		{"a file that is missing", tree(func(o *objects) string { return o.tree("100644 one", strings.Repeat("1", 40)) }), false, false},
		{"a folder that is missing", func(o *objects) string { return b.change(o, strings.Repeat("1", 40)) }, false, false},
		{"a file missing in a commit between", func(o *objects) string {
			return o.commit(b.in(o, o.tree("100644 one", b.one)), b.change(o, o.tree("100644 one", strings.Repeat("1", 40))))
		}, false, false},
		{"a parent that is missing", func(o *objects) string { return o.commit(b.root, b.head, strings.Repeat("1", 40)) }, false, false},
		{"a folder as a file", tree(func(o *objects) string { return o.tree("100644 one", o.tree("100644 x", b.one)) }), false, false},
		{"a file as a folder", tree(func(o *objects) string { return o.tree("40000 one", o.blob("3\n")) }), false, false},
		{"a known file as a folder", tree(func(o *objects) string { return o.tree("40000 one", b.one) }), false, false},
		{"a submodule as a file", tree(func(o *objects) string { return o.tree("100644 module", elsewhere) }), false, false},
		{"a link as a file", tree(func(o *objects) string { return o.tree("100644 link", b.two) }), false, true},
		{"an empty folder", tree(func(o *objects) string { return o.tree("40000 g", emptyTree.String()) }), false, true},
		{"a folder that is not needed, without its files", func(o *objects) string {
			o.tree("100644 one", strings.Repeat("1", 40))
			return b.change(o, o.tree("100644 one", b.one))
		}, false, false},
		{"a file that is not needed", func(o *objects) string {
			o.blob("x")
			return b.change(o, o.tree("100644 one", b.one))
		}, false, true},
		{"a commit that is not needed", func(o *objects) string {
			b.change(o, o.tree("100644 one", b.one))
			return b.change(o, o.tree("100644 two", b.two))
		}, false, true},
		{"folders of a commit between that are too deep", func(o *objects) string {
			at := o.tree("100644 x", o.blob("x"))
			for range limits.Depth {
				at = o.tree("40000 d", at)
			}
			return o.commit(o.tree("100644 README.md", b.readme), b.change(o, at))
		}, false, true},
		{"a commit as a file", tree(func(o *objects) string { return o.tree("100644 one", o.commit(b.root, b.head)) }), false, false},
		{"a blob as the head", func(o *objects) string { return o.blob("x") }, false, false},
		{"names in the wrong order", tree(func(o *objects) string { return o.tree("100644 two", b.two, "100644 one", b.one) }), false, false},
		{"a name twice", tree(func(o *objects) string { return o.tree("100644 one", b.one, "100644 one", o.blob("x")) }), false, false},
		{"a file and a folder of one name", tree(func(o *objects) string {
			return o.tree("100644 a", o.blob("x"), "100644 a.b", o.blob("y"), "40000 a", o.tree("100644 c", o.blob("z")))
		}), false, false},
		{"git's order of files and folders", tree(func(o *objects) string {
			return o.tree("100644 a.b", o.blob("y"), "40000 a", o.tree("100644 c", o.blob("z")), "100644 a0", o.blob("x"))
		}), true, true},
		{"no name", file(""), false, false},
		{"the name .", file("."), false, false},
		{"the name ..", file(".."), false, false},
		{"the name .git", file(".git"), false, false},
		{"the name .GIT", file(".GIT"), false, false},
		{"the name git~1", file("git~1"), false, false},
		{"the name .git with what HFS leaves out", file(".g\u200cit"), false, false},
		{"a slash in a name", file("a/b"), false, false},
		{"a name that git takes", file(".gitignore"), false, true},
		{"another mode", tree(func(o *objects) string { return o.tree("100664 one", b.one) }), false, true},
		{"a mode with a zero", tree(func(o *objects) string { return o.tree("0100644 one", b.one) }), false, false},
		{"a link", tree(func(o *objects) string { return o.tree("120000 one", o.blob("two")) }), false, true},
		{"a name that is too long for a file", file(strings.Repeat("x", 256)), false, true},
		{"the name of nothing", tree(func(o *objects) string { return o.tree("100644 one", strings.Repeat("0", 40)) }), false, false},
		{"half an entry", func(o *objects) string { return b.change(o, o.add(typeTree, "100644 one\x00half")) }, false, false},
		{"no author's name", commit("<a@b> 1 +0000", person, "\n\nx"), false, false},
		{"no space before the address", commit("a<a@b> 1 +0000", person, "\n\nx"), false, false},
		{"no address", commit("a 1 +0000", person, "\n\nx"), false, false},
		{"an address in an address", commit("a <a<b>> 1 +0000", person, "\n\nx"), false, false},
		{"a time with a zero", commit("a <a@b> 01 +0000", person, "\n\nx"), false, false},
		{"no time", commit(person, "a <a@b>", "\n\nx"), false, false},
		{"no time zone", commit(person, "a <a@b> 1", "\n\nx"), false, false},
		{"a time that has no end", commit(person, "a <a@b> 99999999999999999999 +0000", "\n\nx"), false, false},
		{"a field more", commit(person, person, "\nencoding UTF-8\n\nx"), false, true},
		{"a zero byte among the fields", commit(person, person, "\nx \x00\n\nx"), false, false},
		{"folders of many bytes", tree(func(o *objects) string {
			var long []string
			for i := range 100_000 {
				long = append(long, fmt.Sprintf("100644 a-file-with-a-long-name-%06d", i), b.old)
			}
			o.tree(long...)
			return o.tree("100644 one", b.one)
		}), false, true},
		{"a tag", func(o *objects) string {
			head := b.change(o, o.tree("100644 one", b.one))
			o.add(typeTag, "object "+head+"\ntype commit\ntag x\ntagger "+person+"\n\nx\n")
			return head
		}, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := &objects{}
			head := c.push(o)
			body := pushBody(b.head, head, handmadePack(o.entries...))
			if got := b.directly(t, body); got != c.host {
				t.Errorf("the host takes it: %v, want %v", got, c.host)
			}
			if got, answer := b.byGit(t, body); got != c.git {
				t.Errorf("git takes it: %v, want %v: %s", got, c.git, answer)
			}
		})
	}
}

// TestAgentsNeedNoGit: neither a change of an agent nor the fetch of it starts a process.
func TestAgentsNeedNoGit(t *testing.T) {
	t.Parallel()
	s, counted := serveCounted(t)
	_, user := contract.Identity("oidc:alice@example.com", cluster)
	konnector := s.agent(t, access.Konnector, "konnector-"+cluster).Branch("main")
	update := func(i int) *store.Snapshot {
		snap, err := konnector.Update(t.Context(), put(user, fmt.Sprintf("bindings/b/claims/team-%d/c.yaml", i%3), fmt.Sprintf("version: %d\n", i)))
		if err != nil {
			t.Fatal(err)
		}
		return snap
	}
	reader := s.agent(t, access.Bridge, "bridge-"+cluster).Branch("main")
	fetch := func(want *store.Snapshot) {
		t.Helper()
		got, err := reader.Fetch(t.Context())
		if err != nil || got.Head() != want.Head() {
			t.Fatalf("fetched %v, %v, want %s", got.Head(), err, want.Head())
		}
		for i := range 3 {
			path := fmt.Sprintf("bindings/b/claims/team-%d/c.yaml", i)
			a, errA := want.Read(path)
			b, errB := got.Read(path)
			if string(a) != string(b) || (errA == nil) != (errB == nil) {
				t.Errorf("%s: fetched %q, %v, want %q, %v", path, b, errB, a, errA)
			}
		}
	}
	fetch(update(0))
	counted.take()
	fetch(update(1))
	for i := range 5 {
		update(2 + i)
	}
	fetch(update(7))
	if got := counted.take(); got["receive host"] != 7 || got["upload host"] != 2 || got["receive git"]+got["upload git"] != 0 {
		t.Errorf("requests: %v", got)
	}
	for i := range recentSteps + 1 {
		update(8 + i)
	}
	fetch(update(50))
	if got := counted.take(); got["upload git"] == 0 || got["upload host"] != 0 {
		t.Errorf("too many pushes for one answer: %v", got)
	}
	s.fsck(t)
}

// TestAChangeOfAPersonNeedsNoGit: git makes deltas on what the host has, of which an agent
// has the last version alone.
func TestAChangeOfAPersonNeedsNoGit(t *testing.T) {
	t.Parallel()
	s, counted := serveCounted(t)
	reader := s.agent(t, access.Bridge, "bridge-"+cluster).Branch("main")
	c := s.clone(t, access.Owner)
	for i := range 4 {
		c.commit("x", map[string]string{claimPath: strings.Repeat("plan: small\n", 100) + fmt.Sprint(i%3)})
		c.pushed("main")
		snap, err := reader.Fetch(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if b, err := snap.Read(claimPath); !strings.HasSuffix(string(b), fmt.Sprint(i%3)) {
			t.Errorf("fetched %q, %v", b, err)
		}
		// At first the reader has nothing.
		if got, want := counted.take(), map[string]int{"receive host": 1, "upload host": 1}; i > 0 && !maps.Equal(got, want) {
			t.Errorf("requests of change %d: %v, want %v", i, got, want)
		}
	}
	s.fsck(t)
}

// alone is for a pack with nothing beside it.
func alone() error { return nil }

// TestAPushThatEndedAnywhereIsPushedAgain: what a power cut or a kill may leave of a push,
// after each of its steps, hinders nobody.
func TestAPushThatEndedAnywhereIsPushedAgain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		left func(t *testing.T, dir string, p packFile)
	}{
		{"half a pack", func(t *testing.T, dir string, p packFile) {
			write(t, filepath.Join(dir, "objects/pack/tmp_pack_1"), p.data[:20])
		}},
		{"a pack without its index", func(t *testing.T, dir string, p packFile) {
			path := filepath.Join(dir, "objects/pack", packName())
			write(t, path+".keep", []byte(keptUntilSet))
			write(t, path+".pack", p.data)
		}},
		{"a pack and its index", func(t *testing.T, dir string, p packFile) {
			path := filepath.Join(dir, "objects/pack", packName())
			write(t, path+".keep", []byte(keptUntilSet))
			if err := p.store(path, alone); err != nil {
				t.Fatal(err)
			}
		}},
		{"the lock of the branch", func(t *testing.T, dir string, p packFile) {
			if err := p.store(filepath.Join(dir, "objects/pack", packName()), alone); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, mainRef+".lock"), nil)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBased(t)
			o := &objects{}
			head := b.change(o, o.tree("100644 one", o.blob("3\n")))
			body := pushBody(b.head, head, handmadePack(o.entries...))
			repo, _, err := b.repository(cluster)
			if err != nil {
				t.Fatal(err)
			}
			check := newCheck(t.Context(), repo, access.Caller{Role: access.Owner}, free)
			defer check.reader.close()
			in := bytes.NewReader(body)
			req, err := parsePushRequest(in)
			if err != nil {
				t.Fatal(err)
			}
			pack := body[len(body)-in.Len():]
			if err := check.push(req, in, int64(len(pack))); err != nil {
				t.Fatal(err)
			}
			p, ok := check.direct(req, pack)
			if !ok {
				t.Fatal("the host leaves it to git, so this shows nothing")
			}
			c.left(t, b.bare(), p)
			// As after a start: a lock from before counts no more.
			repo.killed.Store(true)
			b.fsck(t)
			if status, answer := b.post(t, access.Owner, "git-receive-pack", body); status != http.StatusOK || !strings.Contains(answer, "ok "+mainRef) {
				t.Errorf("%d %q", status, answer)
			}
			if got := b.served.head(t, mainRef); got != head {
				t.Errorf("main is %s, want %s", got, head)
			}
			b.fsck(t)
		})
	}
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestTheHostAndGitMoveABranchInTurn: of two that move it from one value at once, one does.
func TestTheHostAndGitMoveABranchInTurn(t *testing.T) {
	t.Parallel()
	b := newBased(t)
	c := b.clone(t, access.Owner)
	now := b.head
	won := map[string]int{}
	for i := range 15 {
		c.git("commit", "-q", "--allow-empty", "-m", fmt.Sprint("git ", i))
		byGit := strings.TrimSpace(c.git("rev-parse", "HEAD"))
		c.git("reset", "-q", "--hard", now)
		c.git("commit", "-q", "--allow-empty", "-m", fmt.Sprint("host ", i))
		byHost := strings.TrimSpace(c.git("rev-parse", "HEAD"))
		if out, err := stockGit(t, b.bare(), nil, "fetch", "-q", c.dir, byGit, byHost); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		var all sync.WaitGroup
		gitDid, hostDid := false, false
		all.Go(func() {
			_, err := stockGit(t, b.bare(), nil, "update-ref", mainRef, byGit, now)
			gitDid = err == nil
		})
		all.Go(func() {
			for lost := false; !lost && !hostDid; {
				lock, moved, err := lockRef(b.bare(), mainRef, plumbing.NewHash(now))
				if lost = moved; moved || err != nil {
					continue
				}
				hostDid = lock.write(plumbing.NewHash(byHost)) == nil && lock.set() == nil
			}
		})
		all.Wait()
		got := b.served.head(t, mainRef)
		if gitDid == hostDid || gitDid && got != byGit || hostDid && got != byHost {
			t.Fatalf("git moved it: %v, the host moved it: %v, it is %s", gitDid, hostDid, got)
		}
		won[fmt.Sprint(gitDid)]++
		now = got
		c.git("reset", "-q", "--hard", now)
	}
	t.Log(won)
}

func TestIncrementsAreReadStrictly(t *testing.T) {
	t.Parallel()
	a, b := strings.Repeat("a", 40), strings.Repeat("b", 40)
	good := []string{"want " + a + " ofs-delta no-progress shallow filter agent=x\n", "shallow " + b + "\n", "filter blob:limit=99\n", "", "have " + b + "\n", "done\n"}
	encode := func(lines []string) string {
		var out []byte
		for _, l := range lines {
			if l == "" {
				out = append(out, flushPkt...)
				continue
			}
			out = appendPkt(out, l)
		}
		return string(out)
	}
	got, ok := parseIncrement(strings.NewReader(encode(good)))
	if want := (increment{plumbing.NewHash(a), plumbing.NewHash(b), 99}); !ok || got != want {
		t.Errorf("%v, %v, want %v", got, ok, want)
	}
	for i, line := range map[int]string{
		0: "want " + a + " side-band-64k\n", 1: "shallow " + a + "\n", 2: "filter tree:0\n", 3: "deepen 1\n", 4: "have " + a + "\n", 5: "have " + b + "\n",
	} {
		bad := append([]string(nil), good...)
		bad[i] = line
		if _, ok := parseIncrement(strings.NewReader(encode(bad))); ok {
			t.Errorf("with %q it is one", line)
		}
	}
	for i := range good {
		if _, ok := parseIncrement(strings.NewReader(encode(good[:i]))); ok {
			t.Errorf("%d lines are one", i)
		}
	}
}

// TestWhatFollowsAPackIsLeftToGit: it would go into packs that are made of this one.
func TestWhatFollowsAPackIsLeftToGit(t *testing.T) {
	t.Parallel()
	b := newBased(t)
	o := &objects{}
	head := b.change(o, o.tree("100644 one", o.blob("3\n")))
	pack := handmadePack(o.entries...)
	more := append(bytes.Clone(pack), "x"...)
	sum := sha1.Sum(more)
	for what, c := range map[string]struct {
		pack []byte
		want bool
	}{
		"the pack alone": {pack, true}, "more": {more, false}, "more with a sum of all": {append(more, sum[:]...), false}, "no pack": {nil, false},
	} {
		if got := b.directly(t, pushBody(b.head, head, c.pack)); got != c.want {
			t.Errorf("%s: the host takes it: %v, want %v", what, got, c.want)
		}
	}
}

// TestH2_TheMemoryOfFoldersThatAreTakenApartIsClaimed: those of the push and those that
// they are compared with.
func TestH2_TheMemoryOfFoldersThatAreTakenApartIsClaimed(t *testing.T) {
	t.Parallel()
	b := newBased(t)
	o := &objects{}
	long := []string{"100644 one", b.one}
	file := o.blob("x")
	for i := range 10_000 {
		long = append(long, fmt.Sprintf("100644 x%04d", i), file)
	}
	large := b.change(o, o.tree(long...))
	size := len(o.entries[1].data)
	_, answer := b.post(t, access.Owner, "git-receive-pack", pushBody(b.head, large, handmadePack(o.entries...)))
	if !strings.Contains(answer, "ok "+mainRef) {
		t.Fatal(answer)
	}
	small := &objects{}
	head := small.commit(b.in(small, small.tree("100644 one", b.one)), large)
	for what, c := range map[string]struct {
		old, head string
		entries   []packEntry
	}{"a large folder": {b.head, large, o.entries}, "a small one in its place": {large, head, small.entries}} {
		claimed := 0
		repo, _, err := b.repository(cluster)
		if err != nil {
			t.Fatal(err)
		}
		check := newCheck(t.Context(), repo, access.Caller{Role: access.Owner}, func(n int64) error { claimed += int(n); return nil })
		pack := handmadePack(c.entries...)
		req := &pushRequest{Commands: []command{{mainRef, plumbing.NewHash(c.old), plumbing.NewHash(c.head)}}}
		if err := check.push(req, bytes.NewReader(pack), int64(len(pack))); err != nil {
			t.Fatal(err)
		}
		before := claimed
		if _, ok := check.direct(req, pack); !ok {
			t.Errorf("%s: it is left to git, so this shows nothing", what)
		}
		check.reader.close()
		if got := claimed - before; got < takenApart*size {
			t.Errorf("%s: %d bytes claimed for a folder of %d", what, got, size)
		}
	}
}

// TestTheHostAnswersAsGitDoes: byte by byte, whatever a client can read.
func TestTheHostAnswersAsGitDoes(t *testing.T) {
	t.Parallel()
	for _, capabilities := range []string{
		"", "report-status", "side-band-64k", "report-status side-band-64k", "report-status delete-refs ofs-delta quiet",
		" report-status-v2 side-band-64k quiet atomic object-format=sha1 agent=git/2.39.5",
	} {
		t.Run(capabilities, func(t *testing.T) {
			t.Parallel()
			b := newBased(t)
			o := &objects{}
			head := b.change(o, o.tree("100644 one", o.blob("3\n")))
			body := append([]byte(pkts(b.head+" "+head+" "+mainRef+"\x00"+capabilities)), handmadePack(o.entries...)...)
			if !b.directly(t, body) {
				t.Fatal("the host leaves it to git, so this shows nothing")
			}
			_, want := b.byGit(t, body)
			if _, got := b.post(t, access.Owner, "git-receive-pack", body); got != want {
				t.Errorf("the host answers %q, git %q", got, want)
			}
		})
	}
}
