package embedded

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// change is a system call that changed files, or has changes kept.
type change struct {
	// Number counts the calls of a process, those that failed, too.
	Number int
	// Call is open, write, sync, rename, link, remove, mkdir or chmod.
	Call string
	// Path and To are relative to the root of what is looked at.
	Path, To string
	// Data is what a file has after a write.
	Data []byte
	// Empties says that a file is empty once it is open.
	Empties bool

	file uint64
}

func (c change) String() string {
	return strings.TrimSpace(fmt.Sprintf("%d. %s %s %s", c.Number, c.Call, c.Path, c.To))
}

// files are the contents of all files, by path. A folder has a slash at its end.
type files map[string]string

// disk is a file system and what a power cut leaves of it. What was not synced may be lost:
// the content of a file if the file was not, a name if its folder was not. It keeps any
// of the changes of names since, and not the first ones only, unless ordered says that
// the file system has a journal of them.
type disk struct {
	root    *node
	ordered bool
	// pending are the changes of names that were not synced.
	pending []step
}

// node is a file or a folder.
type node struct {
	// data is the content that programs see, kept what is on the disk.
	data, kept []byte
	// names are those of a folder that programs see, and keptNames those on the disk.
	names, keptNames map[string]*node
}

func newFolder() *node { return &node{names: map[string]*node{}, keptNames: map[string]*node{}} }

// step is a change of names in a folder, which happens as a whole: node gets a name, if
// there is one, and the name gone goes, if there is one.
type step struct {
	folder     *node
	name, gone string
	node       *node
}

func (s step) on(names map[string]*node) {
	delete(names, s.gone)
	if s.node != nil {
		names[s.name] = s.node
	}
}

// newDisk is a disk with the files below dir, durably.
func newDisk(dir string) (*disk, error) {
	d := &disk{root: newFolder()}
	have, err := filesIn(dir)
	for _, path := range slices.Sorted(maps.Keys(have)) {
		n := &node{data: []byte(have[path]), kept: []byte(have[path])}
		if strings.HasSuffix(path, "/") {
			n = newFolder()
		}
		in, name := d.at(strings.TrimSuffix(path, "/"))
		in.names[name], in.keptNames[name] = n, n
	}
	return d, err
}

func filesIn(dir string) (files, error) {
	have := files{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		if e.IsDir() {
			have[rel+"/"] = ""
			return nil
		}
		b, err := os.ReadFile(path)
		have[rel] = string(b)
		return err
	})
	return have, err
}

// in makes files below a folder.
func (f files) in(dir string) error {
	for _, path := range slices.Sorted(maps.Keys(f)) {
		full := filepath.Join(dir, path)
		if strings.HasSuffix(path, "/") {
			if err := os.MkdirAll(full, 0o755); err != nil {
				return err
			}
		} else if err := os.WriteFile(full, []byte(f[path]), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// at is a path's folder, and its name in it.
func (d *disk) at(path string) (folder *node, name string) {
	at := d.root
	parts := strings.Split(path, "/")
	for _, p := range parts[:len(parts)-1] {
		at = at.names[p]
	}
	return at, parts[len(parts)-1]
}

// do does a change.
func (d *disk) do(c change) {
	in, name := d.at(c.Path)
	n := in.names[name]
	switch c.Call {
	case "open":
		if n == nil {
			d.step(step{folder: in, name: name, node: &node{}})
		} else if c.Empties {
			n.data = nil
		}
	case "write":
		n.data = c.Data
	case "mkdir":
		d.step(step{folder: in, name: name, node: newFolder()})
	case "remove":
		d.step(step{folder: in, gone: name})
	case "link":
		to, as := d.at(c.To)
		d.step(step{folder: to, name: as, node: n})
	case "rename":
		to, as := d.at(c.To)
		if to == in {
			d.step(step{in, as, name, n})
			return
		}
		d.step(step{folder: to, name: as, node: n})
		d.step(step{folder: in, gone: name})
	case "sync":
		d.sync(n)
	}
}

func (d *disk) step(s step) {
	s.on(s.folder.names)
	d.pending = append(d.pending, s)
}

func (d *disk) sync(n *node) {
	n.kept = n.data
	last := -1
	for i, s := range d.pending {
		if s.folder == n {
			last = i
		}
	}
	var rest []step
	for i, s := range d.pending {
		if s.folder == n || d.ordered && i <= last {
			s.on(s.folder.keptNames)
		} else {
			rest = append(rest, s)
		}
	}
	d.pending = rest
}

// allSubsets is up to how many changes of names each set of them is tried. Of more, it is
// the first ones, all but one, and one alone.
const allSubsets = 6

// survivors are the sets of changes of names that may have reached the disk.
func (d *disk) survivors() (sets [][]step) {
	n := len(d.pending)
	for i := range n + 1 {
		sets = append(sets, d.pending[:i])
	}
	if d.ordered {
		return sets
	}
	if n > allSubsets {
		for i := range n {
			sets = append(sets, d.pending[i:i+1], slices.Concat(d.pending[:i], d.pending[i+1:]))
		}
		return sets
	}
	for mask := range 1 << n {
		var set []step
		for i, s := range d.pending {
			if mask>>i&1 == 1 {
				set = append(set, s)
			}
		}
		sets = append(sets, set)
	}
	return sets
}

// contents are what may be on the disk of a file of which the last content was not synced.
var contents = []func(n *node) []byte{
	func(n *node) []byte { return n.kept },
	func(n *node) []byte { return n.data },
	func(n *node) []byte { return n.data[:len(n.data)/2] },
	func(n *node) []byte { return make([]byte, len(n.data)) },
}

// afterPowerCut gives each state that the disk may have after a power cut.
func (d *disk) afterPowerCut() (states []files) {
	for _, set := range d.survivors() {
		names := map[*node]map[string]*node{}
		for _, s := range set {
			if names[s.folder] == nil {
				names[s.folder] = maps.Clone(s.folder.keptNames)
			}
			s.on(names[s.folder])
		}
		for _, content := range contents {
			state := files{}
			state.add("", d.root, func(n *node) map[string]*node {
				if changed := names[n]; changed != nil {
					return changed
				}
				return n.keptNames
			}, func(n *node) []byte {
				if bytes.Equal(n.kept, n.data) {
					return n.data
				}
				return content(n)
			})
			states = append(states, state)
		}
	}
	return states
}

// seen are the files as programs see them, and as they are after a kill.
func (d *disk) seen() files {
	state := files{}
	state.add("", d.root, func(n *node) map[string]*node { return n.names }, func(n *node) []byte { return n.data })
	return state
}

func (f files) add(at string, n *node, names func(*node) map[string]*node, data func(*node) []byte) {
	for name, n := range names(n) {
		if n.names == nil {
			f[at+name] = string(data(n))
			continue
		}
		f[at+name+"/"] = ""
		f.add(at+name+"/", n, names, data)
	}
}

// TestADiskKeepsWhatWasSynced: each way to replace a file that leaves out a sync may lose it.
func TestADiskKeepsWhatWasSynced(t *testing.T) {
	t.Parallel()
	create, fill := change{Call: "open", Path: "d/new"}, change{Call: "write", Path: "d/new", Data: []byte("two")}
	syncFile, syncDir := change{Call: "sync", Path: "d/new"}, change{Call: "sync", Path: "d"}
	rename := change{Call: "rename", Path: "d/new", To: "d/file"}
	for _, c := range []struct {
		name    string
		changes []change
		want    string
	}{
		{"all is synced", []change{create, fill, syncFile, rename, syncDir}, "file=two"},
		{"the folder is not", []change{create, fill, syncFile, rename}, "file=one|file=one new=two|file=two"},
		{"the file is not", []change{create, fill, rename, syncDir}, "file=|file=\x00\x00\x00|file=t|file=two"},
		{"the file is too late", []change{create, syncFile, fill, rename, syncDir}, "file=|file=\x00\x00\x00|file=t|file=two"},
		{"the folder is too early", []change{create, fill, syncFile, syncDir, rename}, "file=one new=two|file=two"},
		{"removed", []change{{Call: "remove", Path: "d/file"}}, "|file=one"},
		{"removed and synced", []change{{Call: "remove", Path: "d/file"}, syncDir}, ""},
	} {
		dir := t.TempDir()
		if err := (files{"d/": "", "d/file": "one"}).in(dir); err != nil {
			t.Fatal(err)
		}
		d, err := newDisk(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, change := range c.changes {
			d.do(change)
		}
		var states []string
		for _, state := range d.afterPowerCut() {
			var text []string
			for _, path := range slices.Sorted(maps.Keys(state)) {
				if name, ok := strings.CutPrefix(path, "d/"); ok && name != "" {
					text = append(text, name+"="+state[path])
				}
			}
			states = append(states, strings.Join(text, " "))
		}
		slices.Sort(states)
		if got := strings.Join(slices.Compact(states), "|"); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestADiskInOrderKeepsNoLaterChangeAlone is about file systems with a journal.
func TestADiskInOrderKeepsNoLaterChangeAlone(t *testing.T) {
	t.Parallel()
	for ordered, want := range map[bool]int{true: 3, false: 4} {
		d := &disk{root: newFolder(), ordered: ordered}
		d.do(change{Call: "open", Path: "a"})
		d.do(change{Call: "open", Path: "b"})
		states := map[string]bool{}
		for _, state := range d.afterPowerCut() {
			states[fmt.Sprint(slices.Sorted(maps.Keys(state)))] = true
		}
		if len(states) != want || states["[b]"] == ordered {
			t.Errorf("ordered %v: %v", ordered, states)
		}
	}
}
