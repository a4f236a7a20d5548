package embedded

import (
	"bufio"
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

	"gitbind.dev/gitbridge/store/pack"
)

// packFile is a pack that came whole: its bytes, and where the objects are in it.
type packFile struct {
	data    []byte
	entries []pack.Entry
}

// sum is what a pack ends with, and is named by.
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

// store puts a pack into a repository, durably, and last what makes git see it: the
// index. Each file has another name until it is whole, of the kind that git itself removes
// where nobody came back for it.
func (p packFile) store(repository string) error {
	dir := filepath.Join(repository, "objects", "pack")
	name := filepath.Join(dir, "pack-"+p.sum().String())
	if _, err := os.Stat(name + ".idx"); err == nil {
		// The same bytes were pushed before, and may be about to be collected: git knows.
		return errTaken
	}
	writers := map[string]func(io.Writer) error{".pack": p.write, ".idx": p.writeIndex}
	for _, kind := range []string{".pack", ".idx"} {
		if err := writeDurably(dir, "tmp_"+kind[1:]+"_", name+kind, writers[kind]); err != nil {
			return fmt.Errorf("store a pack: %w", err)
		}
	}
	return syncPath(dir)
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

// writeDurably makes a file that is whole as soon as it has its name. The name is durable
// once its folder is synced.
func writeDurably(dir, prefix, name string, write func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(dir, prefix)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	b := bufio.NewWriter(f)
	// Git's own packs are read-only, too.
	err = errors.Join(write(b), b.Flush(), f.Chmod(0o444), f.Sync())
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

// errTaken says that something is in the way that git knows how to deal with.
var errTaken = errors.New("in the way is what git deals with")

// setRef sets a branch from one value to the next, durably, with the lock that git takes
// for it. Moved says that it had another value; then it keeps that.
func setRef(repository, ref string, old, next plumbing.Hash) (moved bool, err error) {
	path := filepath.Join(repository, filepath.FromSlash(ref))
	// Somebody else holds the lock, or there is no place for it.
	lock, err := os.OpenFile(path+".lock", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
		return false, errTaken
	}
	if err != nil {
		return false, err
	}
	renamed := false
	defer func() {
		if !renamed {
			_ = os.Remove(lock.Name())
		}
	}()
	now, err := readRef(repository, ref)
	if err != nil || now != old {
		return err == nil, errors.Join(err, lock.Close())
	}
	_, err = lock.WriteString(next.String() + "\n")
	if err = errors.Join(err, lock.Sync(), lock.Close()); err != nil {
		return false, err
	}
	if err := os.Rename(lock.Name(), path); err != nil {
		return false, err
	}
	renamed = true
	return false, syncPath(filepath.Dir(path))
}
