package embedded

import (
	"bufio"
	"crypto/rand"
	"crypto/sha1"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
	"github.com/pjbgf/sha1cd"
	"golang.org/x/sync/errgroup"

	"gitbind.dev/gitbridge/store/pack"
)

// packFile is a pack that came whole: its bytes, and where the objects are in it.
type packFile struct {
	data    []byte
	entries []pack.Entry
}

// sum is what a pack ends with.
func (p packFile) sum() (h plumbing.Hash) {
	copy(h[:], p.data[len(p.data)-len(h):])
	return h
}

// collides tells whether a pack was made to have the same sum as another one.
func (p packFile) collides() bool {
	sum := sha1cd.New().(sha1cd.CollisionResistantHash)
	_, _ = sum.Write(p.data[:len(p.data)-sha1.Size])
	_, collides := sum.CollisionResistantSum(nil)
	return collides
}

// keptUntilSet is what a mark says that keeps a pack from a repack.
const keptUntilSet = "gitbind: until its branch is set\n"

// push stores a pack and sets a branch to what is in it. Moved says that the branch had
// another value: it is locked first, and nothing is stored then. Until it is set a mark keeps the
// pack from a repack, as in git.
//
// The pack's name is its own, and not that of its content: git may get the same bytes
// next, with a mark of its own. A repack that found the pack before and the mark after
// would count on the pack to stay, and remove it.
func (p packFile) push(repository string, cmd command) (moved bool, err error) {
	lock, moved, err := lockRef(repository, cmd.Ref, cmd.Old)
	if moved || err != nil {
		return moved, err
	}
	defer lock.release()
	path := filepath.Join(repository, "objects", "pack", packName())
	defer func() { _ = os.Remove(path + ".keep") }()
	if err := os.WriteFile(path+".keep", []byte(keptUntilSet), 0o600); err != nil {
		return false, err
	}
	if err := p.store(path, func() error { return lock.write(cmd.New) }); err != nil {
		return false, err
	}
	return false, lock.set()
}

// packName is a name that no other pack has.
func packName() string {
	var name plumbing.Hash
	_, _ = rand.Read(name[:]) // it never fails
	return "pack-" + name.String()
}

// store writes a pack to a path without its ending, durably, and last what makes git see
// it: the index. Until both are whole they have names of the kind that git itself removes
// where nobody came back for them. Beside writes what else is needed, at the same time: a disk on
// which others write much is waited for once, and not for each file.
func (p packFile) store(path string, beside func() error) error {
	dir := filepath.Dir(path)
	var index string
	var writing errgroup.Group
	writing.Go(beside)
	writing.Go(func() (err error) {
		index, err = writeDurably(dir, "tmp_idx_", p.writeIndex)
		return err
	})
	packed, err := writeDurably(dir, "tmp_pack_", p.write)
	err = errors.Join(err, writing.Wait())
	// Once they have their names, there is nothing to remove.
	defer func() { _, _ = os.Remove(packed), os.Remove(index) }()
	if err != nil {
		return fmt.Errorf("store a pack: %w", err)
	}
	return movePack(path, map[string]string{"pack": packed, "idx": index})
}

// movePack gives the files of a pack, by their kind, a path without its ending, durably: the index
// is the last, as git sees a pack by it.
func movePack(path string, files map[string]string) error {
	for _, kind := range []string{"pack", "rev", "idx"} {
		file, ok := files[kind]
		if !ok {
			continue
		}
		if err := os.Rename(file, path+"."+kind); err != nil {
			return err
		}
	}
	return syncPath(filepath.Dir(path))
}

func (p packFile) write(w io.Writer) error {
	_, err := w.Write(p.data)
	return err
}

func (p packFile) writeIndex(w io.Writer) error {
	var index idxfile.Writer
	if err := index.OnHeader(uint32(len(p.entries))); err != nil {
		return err
	}
	for _, e := range p.entries {
		index.Add(e.Name, uint64(e.Offset), e.CRC)
	}
	if err := index.OnFooter(p.sum()); err != nil {
		return err
	}
	x, err := index.Index()
	if err != nil {
		return err
	}
	_, err = idxfile.NewEncoder(w).Encode(x)
	return err
}

// writeDurably makes a file and gives its temporary name.
func writeDurably(dir, prefix string, write func(io.Writer) error) (name string, err error) {
	f, err := os.CreateTemp(dir, prefix)
	if err != nil {
		return "", err
	}
	b := bufio.NewWriter(f)
	// Git's own packs are read-only, too.
	err = errors.Join(write(b), b.Flush(), f.Chmod(0o444), f.Sync(), f.Close())
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return f.Name(), err
}

// errTaken says that something is in the way that git knows how to deal with.
var errTaken = errors.New("in the way is what git deals with")

// refLock is the lock that git takes for a branch, a file that becomes the branch.
type refLock struct {
	file *os.File
	path string
	// done says that there is no lock any more.
	done bool
}

// lockRef locks a branch that has a value. Moved says that it has another one, and is not locked.
func lockRef(repository, ref string, value plumbing.Hash) (l *refLock, moved bool, err error) {
	path := filepath.Join(repository, filepath.FromSlash(ref))
	// Somebody else holds the lock, or there is no place for it.
	file, err := os.OpenFile(path+".lock", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
		return nil, false, errTaken
	}
	if err != nil {
		return nil, false, err
	}
	l = &refLock{file: file, path: path}
	now, err := readRef(repository, ref)
	if err != nil || now != value {
		l.release()
		return nil, err == nil, err
	}
	return l, false, nil
}

// write writes what the branch is to be, durably.
func (l *refLock) write(next plumbing.Hash) error {
	_, err := l.file.WriteString(next.String() + "\n")
	return errors.Join(err, l.file.Sync())
}

// set makes the branch what was written, durably, and ends the lock.
func (l *refLock) set() error {
	if err := l.file.Close(); err != nil {
		return err
	}
	if err := os.Rename(l.file.Name(), l.path); err != nil {
		return err
	}
	l.done = true
	return syncPath(filepath.Dir(l.path))
}

// release ends the lock, and leaves the branch as it is unless it was set.
func (l *refLock) release() {
	if !l.done {
		_, _ = l.file.Close(), os.Remove(l.file.Name())
		l.done = true
	}
}
