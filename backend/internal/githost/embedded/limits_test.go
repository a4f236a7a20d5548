package embedded

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/gitbridge/store/limits"
)

// tree makes a tree of one entry for each name, in a clone.
func (c *clone) tree(kind, object string, names ...string) string {
	c.t.Helper()
	mode := map[string]string{"tree": "040000", "blob": "100644", "commit": "160000"}[kind]
	var in strings.Builder
	for _, name := range names {
		fmt.Fprintf(&in, "%s %s %s\t%s\n", mode, kind, object, name)
	}
	out, err := stockGit(c.t, c.dir, []byte(in.String()), "mktree", "--missing")
	if err != nil {
		c.t.Fatalf("mktree: %v\n%s", err, out)
	}
	return strings.TrimSpace(out)
}

// nested is a tree of folders in each other, each of which holds the next one under
// all of the names.
func (c *clone) nested(levels int, leaf string, names ...string) string {
	c.t.Helper()
	for range levels {
		leaf = c.tree("tree", leaf, names...)
	}
	return leaf
}

// withBindings is the tree of main with another folder bindings/.
func (c *clone) withBindings(tree string) string {
	c.t.Helper()
	var in strings.Builder
	for line := range strings.Lines(c.git("ls-tree", "origin/main")) {
		if !strings.HasSuffix(line, "\tbindings\n") {
			in.WriteString(line)
		}
	}
	fmt.Fprintf(&in, "040000 tree %s\tbindings\n", tree)
	out, err := stockGit(c.t, c.dir, []byte(in.String()), "mktree")
	if err != nil {
		c.t.Fatalf("mktree: %v\n%s", err, out)
	}
	return strings.TrimSpace(out)
}

// onMain makes a commit of a tree on the branch's head, and gives its name.
func (c *clone) onMain(tree string) string {
	c.t.Helper()
	return strings.TrimSpace(c.git("commit-tree", "-p", "origin/main", "-m", "x", tree))
}

func TestH1_ATreeOfTooManyPathsIsRefusedInWordsAtThePush(t *testing.T) {
	t.Parallel()
	s := serve(t)
	blob := func(c *clone) string {
		path := filepath.Join(c.t.TempDir(), "f")
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(c.git("hash-object", "-w", path))
	}
	long := strings.Repeat("n", 200_000)
	for what, c := range map[string]struct {
		role  access.Role
		at    string
		tree  func(*clone) string
		words string
	}{
		"2^20 files in 21 folders": {access.Owner, "main", func(c *clone) string { return c.nested(20, c.tree("blob", blob(c), "f"), "a", "b") }, "more than 250000 files and folders"},
		"2^63 files":               {access.Owner, "main", func(c *clone) string { return c.nested(63, c.tree("blob", blob(c), "f"), "a", "b") }, "more than 250000 files and folders"},
		"2^40 folders of nothing":  {access.Owner, "main", func(c *clone) string { return c.nested(40, c.tree("blob", ""), "a", "b") }, "more than 250000 files and folders"},
		"2^20 submodules": {access.Owner, "main", func(c *clone) string {
			return c.nested(20, c.tree("commit", strings.Repeat("1", 40), "s"), "a", "b")
		}, "more than 250000 files and folders"},
		"long names": {access.Owner, "main", func(c *clone) string {
			return c.nested(4, c.tree("blob", blob(c), "f"), "a"+long, "b"+long, "c"+long, "d"+long)
		}, "paths of more than 32 MiB in all"},
		"very deep": {access.Owner, "main", func(c *clone) string { return c.nested(80, c.tree("blob", blob(c), "f"), "a") }, "folders more than 64 deep"},
		"of the konnector": {access.Konnector, "main", func(c *clone) string {
			return c.withBindings(c.nested(20, c.tree("blob", blob(c), "f"), "a", "b"))
		}, "more than 250000 files and folders"},
		"of the bridge":      {access.Bridge, "status", func(c *clone) string { return c.nested(20, c.tree("blob", blob(c), "f"), "a", "b") }, "more than 250000 files and folders"},
		"on a change branch": {access.Owner, "changes/x", func(c *clone) string { return c.nested(20, c.tree("blob", blob(c), "f"), "a", "b") }, "more than 250000 files and folders"},
		"on a branch that keeps a conflict": {access.Konnector, "conflicts/x", func(c *clone) string {
			return c.withBindings(c.nested(20, c.tree("blob", blob(c), "f"), "a", "b"))
		}, "more than 250000 files and folders"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			clone := s.clone(t, c.role)
			clone.refused(c.words, clone.onMain(c.tree(clone))+":refs/heads/"+c.at)
		})
	}
	t.Run("as much as is allowed", func(t *testing.T) {
		t.Parallel()
		clone := s.clone(t, access.Owner)
		clone.pushed(clone.onMain(clone.nested(16, clone.tree("blob", blob(clone), "f"), "a", "b")) + ":refs/heads/changes/much")
		clone.pushed(clone.onMain(clone.nested(63, clone.tree("blob", blob(clone), "f"), "a")) + ":refs/heads/changes/deep")
		// What is there already counts as what comes does.
		clone.git("fetch", "-q", "origin", "changes/much")
		clone.refused("more than 250000 files and folders", clone.onMain(clone.tree("tree", strings.TrimSpace(clone.git("rev-parse", "FETCH_HEAD^{tree}")), "a", "b"))+":refs/heads/changes/more")
	})
}

func TestH2_LongMessagesAreRefusedFromEveryRole(t *testing.T) {
	t.Parallel()
	s := serve(t)
	message := func(size int) string {
		path := filepath.Join(t.TempDir(), "message")
		if err := os.WriteFile(path, []byte(strings.Repeat("word ", size/5)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for role, to := range map[access.Role]string{access.Owner: "main", access.Konnector: "conflicts/x", access.Bridge: "status"} {
		t.Run(role.String(), func(t *testing.T) {
			t.Parallel()
			c := s.clone(t, role)
			commit := func(size int) string {
				return strings.TrimSpace(c.git("commit-tree", "-p", "origin/main", "-F", message(size), "origin/main^{tree}"))
			}
			c.refused("its message has", commit(limits.Message+100_000)+":refs/heads/"+to)
			c.refused("most of it its message, at most 2097152", commit(limits.Commit+100)+":refs/heads/"+to)
			c.pushed(commit(limits.Message-100) + ":refs/heads/" + to)
		})
	}
	t.Run("in all", func(t *testing.T) {
		t.Parallel()
		c := s.clone(t, access.Owner)
		var in bytes.Buffer
		text := strings.Repeat("word ", 200_000)
		for i := range 70 {
			fmt.Fprintf(&in, "commit refs/heads/talk\ncommitter alice <alice@example.com> %d +0000\ndata %d\n%s\n", 1_800_000_000+i, len(text), text)
			if i == 0 {
				fmt.Fprint(&in, "from refs/remotes/origin/main^0\n")
			}
		}
		if out, err := stockGit(t, c.dir, in.Bytes(), "fast-import", "--quiet"); err != nil {
			t.Fatalf("fast-import: %v\n%s", err, out)
		}
		c.refused("more than 67108864 bytes of commits with their messages", "talk:refs/heads/changes/talk")
	})
	t.Run("a huge author", func(t *testing.T) {
		t.Parallel()
		c := s.clone(t, access.Owner)
		c.git("config", "user.name", strings.Repeat("n", 5000))
		c.commit("x", map[string]string{"x": "x"})
		// Not main: the test of the owner's messages pushes there meanwhile.
		c.refused("line has 50", "HEAD:refs/heads/changes/author")
	})
}

// A tree is measured by the names that the rules read in it.
func FuzzEntries(f *testing.F) {
	f.Add([]byte("100644 f\x00" + strings.Repeat("\x01", 20) + "40000 d\x00" + strings.Repeat("\x02", 20)))
	f.Add([]byte("40000 d\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		want, refused := parseTree(data)
		var got []treeEntry
		err := entries(data, func(mode, name []byte, hash plumbing.Hash) error {
			got = append(got, treeEntry{string(mode), string(name), hash})
			return nil
		})
		if refused == nil && (err != nil || !slices.Equal(got, want)) {
			t.Errorf("measured %v, %v, and read %v", got, err, want)
		}
	})
}
