package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
)

// repository is one bare repository.
type repository struct {
	id  string
	dir string
	git *git
	// turn is the repository's queue: git does one push at a time.
	turn chan struct{}
	// collecting is held while git repacks, which takes locks of its own beside a
	// push. A push never waits for it.
	collecting sync.Mutex
	// nextRepack and nextCollect are before when the repository is not repacked, or not in full,
	// after that failed. They belong to the holder of collecting.
	nextRepack, nextCollect time.Time
	// killed says that git ended before its end, and may have left locks.
	killed atomic.Bool
	// pushes counts those that this process knows of since the last repack began.
	pushes atomic.Int64
	// size is about that on the disk; 0 before it was measured.
	size atomic.Int64
	// objects remembers commits and trees across pushes.
	objects *cache
	// extents are those of folders, over all repositories.
	extents *extents
}

// lock waits for this repository's turn.
func (r *repository) lock(ctx context.Context) error {
	select {
	case r.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *repository) unlock() { <-r.turn }

// isAncestor tells whether the commit old is reachable from any of the commits.
// All must be in the repository.
func (r *repository) isAncestor(ctx context.Context, old plumbing.Hash, commits ...plumbing.Hash) (bool, error) {
	between, err := r.commitsBetween(ctx, []plumbing.Hash{old}, commits, 1)
	return len(between) == 0, err
}

// byHistory has git compare histories by their commits, with a graph of them: see writeGraph.
// Otherwise it stops looking where commits are older than what it looks for, and behind those
// of a clock that was wrong it takes what both have for what one has.
const byHistory = "--topo-order"

// commitsBetween are the commits that are reachable from tips and from none of
// bases, at most limit of them, by one process for however many.
func (r *repository) commitsBetween(ctx context.Context, tips, bases []plumbing.Hash, limit int) ([]plumbing.Hash, error) {
	var revisions strings.Builder
	for _, tip := range tips {
		revisions.WriteString(tip.String() + "\n")
	}
	for _, base := range bases {
		revisions.WriteString("^" + base.String() + "\n")
	}
	out, err := r.git.output(ctx, r.dir, []byte(revisions.String()), "rev-list", byHistory, fmt.Sprintf("--max-count=%d", limit), "--stdin")
	if err != nil {
		return nil, err
	}
	var commits []plumbing.Hash
	for _, line := range strings.Fields(string(out)) {
		commits = append(commits, plumbing.NewHash(line))
	}
	return commits, nil
}

// newPrefix begins the name of a repository that is not whole yet. No id does.
const newPrefix = ".new-"

// create makes a bare repository with its first commit.
func (r *repository) create(ctx context.Context, now time.Time) error {
	return r.make(ctx, func(dir string) error {
		if _, err := r.git.output(ctx, dir, firstCommit(now), "fast-import", "--quiet"); err != nil {
			return err
		}
		_, err := r.git.output(ctx, dir, nil, writeGraph...)
		return err
	})
}

// writeGraph has git write how far each commit is from the first one: whatever their dates are,
// it then knows which cannot be above another. Those that came since are all looked at.
var writeGraph = []string{"commit-graph", "write", "--reachable", "--split"}

// hasGraph tells whether that was done. A repository of an older host, or one that is copied for
// the first time, has none.
func (r *repository) hasGraph() bool {
	info := filepath.Join(r.dir, "objects", "info")
	return slices.ContainsFunc([]string{"commit-graph", "commit-graphs/commit-graph-chain"}, func(name string) bool {
		_, err := os.Stat(filepath.Join(info, name))
		return err == nil
	})
}

// make makes a bare repository and fills it, in a temporary directory that is renamed
// when it is whole: one that exists is complete.
func (r *repository) make(ctx context.Context, fill func(dir string) error) error {
	tmp, err := os.MkdirTemp(r.git.dir, newPrefix+r.id+"-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if _, err := r.git.output(ctx, tmp, nil, "init", "--quiet", "--bare", "--template=", "--initial-branch=main", "."); err != nil {
		return err
	}
	if err := fill(tmp); err != nil {
		return err
	}
	if err := syncTree(tmp); err != nil {
		return err
	}
	if err := os.Rename(tmp, r.dir); err != nil {
		if ok, _ := r.exists(); ok {
			return nil // somebody else was first
		}
		return err
	}
	return syncPath(r.git.dir)
}

// exists tells whether the repository is there. It was whole when it got its
// name, so that HEAD is enough to look for.
func (r *repository) exists() (bool, error) {
	_, err := os.Stat(filepath.Join(r.dir, "HEAD"))
	if os.IsNotExist(err) {
		return false, nil
	}
	return err == nil, err
}

const (
	// clockStep is by how much a file's time may lie before the clock's.
	clockStep = 100 * time.Millisecond
	// clockAhead is by how much at least the clock was ahead that gave a file a time to come: more
	// than the clock of a volume that is elsewhere.
	clockAhead = time.Hour
)

// unlockKilled removes the locks of a git that was killed while this process
// went on, for want of memory for example. The caller has the repository's turn.
func (r *repository) unlockKilled() error {
	if !r.killed.Load() || !r.collecting.TryLock() {
		return nil // while git repacks, a lock may be its own
	}
	defer r.collecting.Unlock()
	if err := r.sweepLocks(time.Now().Add(2 * clockStep)); err != nil {
		return fmt.Errorf("remove locks that git left: %w", err)
	}
	r.killed.Store(false)
	return nil
}

// sweepLocks removes the lock files that a git left which was killed before, by a
// power cut for example: nobody could push to their branch again. The marks of packs go,
// too: no repack would ever take one of these. Halves of packs become files that git
// removes in time. Nobody else's git works in the directory.
func (r *repository) sweepLocks(before time.Time) error {
	return filepath.WalkDir(r.dir, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // gone since the folder was read
		}
		if err != nil || e.IsDir() {
			return err
		}
		sweep := os.Remove
		switch {
		case strings.HasSuffix(path, ".lock") || ofPush(path):
		case halfPack(path):
			sweep = leaveToGit
		default:
			return nil
		}
		info, err := e.Info()
		if err == nil && (info.ModTime().Before(before.Add(-clockStep)) || time.Until(info.ModTime()) > clockAhead) {
			err = sweep(path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
}

// pushMarks are what the marks of packs begin with until their branch is set: of this host,
// of git's receive-pack and of its fast-import.
var pushMarks = []string{keptUntilSet, "receive-pack ", "fast-import"}

// ofPush tells whether a file is the mark of a pack that was being pushed, and not one of
// somebody who wants to keep the pack. Of its text a kill or a power cut leaves a part, or
// nothing, as somebody's mark has; then the mark is as old as the pack.
func ofPush(path string) bool {
	pack, ok := strings.CutSuffix(path, ".keep")
	if !ok {
		return false
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	if text := strings.Trim(string(b), "\x00"); text != "" {
		return slices.ContainsFunc(pushMarks, func(mark string) bool {
			return strings.HasPrefix(text, mark) || strings.HasPrefix(mark, text)
		})
	}
	mark, err := os.Stat(path)
	if err != nil {
		return false
	}
	packed, err := os.Stat(pack + ".pack")
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	return mark.ModTime().Sub(packed.ModTime()).Abs() < time.Minute
}

// halfPack tells whether a file is of a pack of which git sees nothing: the pack itself or
// its index is not there.
func halfPack(path string) bool {
	kind := filepath.Ext(path)
	if !strings.HasPrefix(filepath.Base(path), "pack-") || kind == ".keep" {
		return false
	}
	for _, other := range []string{".pack", ".idx"} {
		if _, err := os.Stat(strings.TrimSuffix(path, kind) + other); errors.Is(err, fs.ErrNotExist) {
			return true
		}
	}
	return false
}

// leaveToGit gives a file a name with which git removes it after keepLost. A name that
// ends like that of a pack would end each repack.
func leaveToGit(path string) error {
	now := time.Now()
	if err := os.Chtimes(path, now, now); err != nil {
		return err
	}
	return os.Rename(path, filepath.Join(filepath.Dir(path), "tmp_"+strings.ReplaceAll(filepath.Base(path), ".", "_")))
}

// syncNames makes durable what git leaves to the file system: the names of the objects in
// the folders below objects that are of a kind, and those of refs. Git syncs files only.
func (r *repository) syncNames(kind string, refs ...string) error {
	folders, err := filepath.Glob(filepath.Join(r.dir, "objects", kind))
	if err != nil {
		return err
	}
	folders = append(folders, filepath.Join(r.dir, "objects"))
	for _, ref := range refs {
		// Git makes the folders of a ref, too, and the last of packed-refs is in its own.
		for at := filepath.Dir(filepath.FromSlash(ref)); at != "."; at = filepath.Dir(at) {
			folders = append(folders, filepath.Join(r.dir, at))
		}
	}
	folders = append(folders, r.dir)
	synced := map[string]bool{}
	for _, folder := range folders {
		if synced[folder] {
			continue
		}
		synced[folder] = true
		// Git removes a folder with its last ref.
		if err := syncPath(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("sync what git wrote: %w", err)
		}
	}
	return nil
}

// syncTree makes all files below dir durable, and their names.
func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return syncPath(path)
	})
}

// syncPath makes a file's content durable, or the names in a folder.
func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
