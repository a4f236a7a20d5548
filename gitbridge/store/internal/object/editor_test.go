package object

import (
	"bytes"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// model is a tree as a map from path to content.
type model map[string]string

// blocked says that a path is a folder, or has a file as a folder.
func (m model) blocked(path string) bool {
	for other := range m {
		if strings.HasPrefix(other, path+"/") || strings.HasPrefix(path, other+"/") {
			return true
		}
	}
	return false
}

func contents(files func(func(File) bool)) model {
	m := model{}
	last := ""
	for f := range files {
		if f.Path <= last {
			panic(fmt.Sprintf("%q after %q", f.Path, last))
		}
		last = f.Path
		data, _ := f.Data()
		m[f.Path] = string(data)
	}
	return m
}

// paths has few components, chosen to meet each other and to sort in places
// where files and folders differ.
func paths(t *rapid.T) string {
	name := rapid.SampledFrom([]string{"a", "a.b", "a-b", "a0", "ab", "b"})
	return strings.Join(rapid.SliceOfN(name, 1, 4).Draw(t, "path"), "/")
}

// store keeps what was emitted, as a remote would.
type objects map[ID]Received

func (o objects) emit(obj Object) {
	data := obj.Data
	if data == nil {
		data = []byte{}
	}
	if obj.ID != Sum(obj.Kind, data) {
		panic("wrong name")
	}
	o[obj.ID] = Received{Kind: obj.Kind, Size: int64(len(data)), Data: data}
}

func (o objects) build(root ID, old *Node) (*Node, error) {
	b := Builder{
		Received: func(id ID) (Received, bool) { r, ok := o[id]; return r, ok },
		Old:      old,
		MaxFile:  100,
	}
	return b.Build(root)
}

func TestEditorIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := model{}
		e := NewEditor(nil)
		all := objects{}
		var root *Node
		frozen := model{}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			mark, before := e.Mark(), maps.Clone(want)
			for range rapid.IntRange(1, 5).Draw(t, "edits") {
				change(t, e, want)
			}
			if rapid.Bool().Draw(t, "rollback") {
				e.Rollback(mark)
				want = before
			}
			if diff := cmp.Diff(want, contents(e.Walk(""))); diff != "" {
				t.Fatalf("walk: %s", diff)
			}
			checkFind(t, e, want)
			if !rapid.Bool().Draw(t, "freeze") {
				continue
			}

			new := objects{}
			next := e.Freeze(func(o Object) { new.emit(o); all.emit(o) })
			if diff := cmp.Diff(want, contents(next.Walk(""))); diff != "" {
				t.Fatalf("frozen: %s", diff)
			}
			if next.Files != len(want) {
				t.Fatalf("%d files counted, want %d", next.Files, len(want))
			}
			checkDiff(t, root, next, frozen, want)
			// What was emitted is enough for one who has the tree before, and
			// all of it for one who has none.
			for _, o := range []struct {
				sent objects
				old  *Node
			}{{new, root}, {all, nil}} {
				built, err := o.sent.build(next.ID, o.old)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, contents(built.Walk(""))); diff != "" {
					t.Fatalf("built: %s", diff)
				}
			}
			root, frozen = next, maps.Clone(want)
		}
	})
}

func change(t *rapid.T, e *Editor, want model) {
	path := paths(t)
	if rapid.Bool().Draw(t, "remove") {
		_, there := want[path]
		if err := e.Set(path, nil); (err == nil) != there {
			t.Fatalf("remove %s: %v, but there: %v", path, err, there)
		}
		delete(want, path)
		return
	}
	content := rapid.StringMatching("[xy]{0,2}").Draw(t, "content")
	err := e.Set(path, NewFile(ModeRegular, ID{}, []byte(content)))
	if (err != nil) != want.blocked(path) {
		t.Fatalf("write %s: %v, but blocked: %v", path, err, want.blocked(path))
	}
	if err == nil {
		want[path] = content
	}
}

func checkFind(t *rapid.T, e *Editor, want model) {
	path := paths(t)
	n := e.Find(path)
	content, there := want[path]
	if (n != nil) != there {
		t.Fatalf("find %s: %v, but there: %v", path, n, there)
	}
	if n != nil {
		if data, _ := n.Data(); string(data) != content {
			t.Fatalf("find %s: %q, want %q", path, data, content)
		}
	}
}

func checkDiff(t *rapid.T, old, new *Node, before, after model) {
	folder := rapid.SampledFrom([]string{"", "a", "a/a"}).Draw(t, "folder")
	prefix := ""
	a, b := old, new
	if folder != "" {
		prefix, a, b = folder+"/", old.Find(folder), new.Find(folder)
	}
	for _, n := range []**Node{&a, &b} {
		if *n != nil && !(*n).IsFolder() {
			*n = nil
		}
	}
	got := map[string][2]bool{}
	for c := range Diff(a, b, prefix) {
		got[c.Path] = [2]bool{c.Old != nil, c.New != nil}
	}
	want := map[string][2]bool{}
	for _, m := range []model{before, after} {
		for path := range m {
			x, inOld := before[path]
			y, inNew := after[path]
			if strings.HasPrefix(path, prefix) && (x != y || inOld != inNew) {
				want[path] = [2]bool{inOld, inNew}
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("diff below %q: %s", folder, diff)
	}
}

// Git itself computes the names of the same trees.
func TestTreeNamesAreGits(t *testing.T) {
	repo := t.TempDir()
	git(t, repo, "", "init", "-q", "--bare", ".")
	rapid.Check(t, func(t *rapid.T) {
		e := NewEditor(nil)
		want := model{}
		for range rapid.IntRange(1, 8).Draw(t, "files") {
			change(t, e, want)
		}
		root := e.Freeze(func(Object) {})
		var index strings.Builder
		for _, path := range slices.Sorted(maps.Keys(want)) {
			id := git(t, repo, want[path], "hash-object", "-w", "--stdin")
			fmt.Fprintf(&index, "100644 %s\t%s\n", id, path)
		}
		git(t, repo, "", "read-tree", "--empty")
		git(t, repo, index.String(), "update-index", "--index-info")
		if id := git(t, repo, "", "write-tree"); id != root.ID.String() {
			t.Fatalf("git says %s, not %s, of %q", id, root.ID, want)
		}
	})
}

func git(t interface{ Fatalf(string, ...any) }, dir, stdin string, args ...string) string {
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %s: %v: %s", args, err, stderr.String())
	}
	return strings.TrimSpace(string(out))
}
