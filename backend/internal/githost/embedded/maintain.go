package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
)

const (
	// repackTimeout bounds one repack, and collectTimeout a full one. An owner can push files
	// with which that takes long, and other repositories wait meanwhile.
	repackTimeout  = 30 * time.Minute
	collectTimeout = 10 * time.Minute
	// minRepackBackoff and maxRepackBackoff bound how long a repository waits after a repack that
	// failed, or with the next full one. It waits twice as long after each.
	minRepackBackoff = 10 * time.Minute
	maxRepackBackoff = 24 * time.Hour
)

// newRepackBackoff tells how long repositories wait, by their ids.
func newRepackBackoff() workqueue.TypedRateLimiter[string] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[string](minRepackBackoff, maxRepackBackoff)
}

// countPush asks for a repack once a repository has had enough pushes, each of
// which left a pack, or where it has no graph of its commits. What other processes
// left counts too: the first push that this process sees looks at what is there.
func (h *Host) countPush(repo *repository) {
	n := repo.pushes.Add(1)
	if n == 1 {
		if n = repo.pushes.Add(repo.packs()); !repo.hasGraph() {
			n = h.cfg.RepackAfter
		}
	}
	if n >= h.cfg.RepackAfter {
		h.repack.Add(repo.id) // it has one place in the queue, however often
	}
}

// packs counts the packs that a repository has.
func (r *repository) packs() int64 {
	entries, err := os.ReadDir(filepath.Join(r.dir, "objects", "pack"))
	if err != nil {
		return 0 // it decides only when to repack
	}
	var n int64
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".pack") {
			n++
		}
	}
	return n
}

// Run repacks repositories, one at a time, until ctx ends. Pushes and fetches
// go on meanwhile: git keeps old packs until the new one is in place. Copies are kept up
// to date.
func (h *Host) Run(ctx context.Context) error {
	if h.copies != nil {
		var following sync.WaitGroup
		defer following.Wait()
		following.Go(func() { h.copies.moved.Run(ctx) })
	}
	h.repack.Run(ctx)
	return nil
}

// repackQueued repacks a repository that was in the queue. It gives no error: the queue would
// try again within a second.
func (h *Host) repackQueued(ctx context.Context, id string) error {
	repo, ok, err := h.repository(id)
	switch {
	case ctx.Err() != nil: // the queue gives what it has before it ends
	case err != nil:
		wait := h.repackBackoff.When(id)
		h.repack.AddAfter(id, wait)
		h.cfg.Log.Error("Repack failed", "cluster", id, "error", err, "retryAfter", wait.String())
	case !ok:
		h.repackBackoff.Forget(id)
		h.collectBackoff.Forget(id)
	default:
		h.repackOne(ctx, repo)
	}
	return nil
}

// repackOne repacks a repository, once a day in full, unless that failed a short while ago. After
// a full one that failed it is queued again, so that its new packs do not wait for the next, and
// after that for the next full one.
func (h *Host) repackOne(ctx context.Context, repo *repository) {
	repo.collecting.Lock()
	defer repo.collecting.Unlock()
	if wait := repo.nextRepack.Sub(h.now()); wait > 0 {
		h.repack.AddAfter(repo.id, wait)
		return
	}
	repo.pushes.Store(1)                       // those from now on may come too late for this repack
	failed := h.now().Before(repo.nextCollect) // the last full one, a short while ago
	full := !failed && repo.isCollectDue(h.now())
	before, start := repo.packs(), time.Now()
	var err error
	if full {
		err = repo.collect(ctx, h.now())
	} else {
		err = repo.rollUp(ctx)
	}
	log := h.cfg.Log.With("cluster", repo.id, "full", full, "took", time.Since(start).Round(time.Millisecond).String())
	// No git works that long.
	if err := repo.removeUnfinished(h.now(), 2*repackTimeout); err != nil {
		log.Error("Unfinished packs are not removed", "error", err)
	}
	repo.measure()
	if err == nil {
		h.repackBackoff.Forget(repo.id)
		if full {
			h.collectBackoff.Forget(repo.id)
		}
		log.Info("Repacked", "packsBefore", before, "packs", repo.packs())
		if failed {
			h.repack.AddAfter(repo.id, repo.nextCollect.Sub(h.now()))
		}
		return
	}
	// Whether it was killed or not: what it holds is let go by now.
	repo.killed.Store(true)
	if ctx.Err() != nil {
		return // the host ends
	}
	var wait time.Duration
	if full {
		wait = h.collectBackoff.When(repo.id)
		repo.nextCollect = h.now().Add(wait)
		h.repack.Add(repo.id)
	} else {
		wait = h.repackBackoff.When(repo.id)
		repo.nextRepack = h.now().Add(wait)
		h.repack.AddAfter(repo.id, wait)
	}
	log.Error("Repack failed", "error", err, "retryAfter", wait.String())
}

// rollUp rolls the many small packs of single pushes into few of growing size: the cost
// follows what is new, not the size of the repository.
func (r *repository) rollUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, repackTimeout)
	defer cancel()
	if err := r.git.maintain(ctx, r.dir, "repack", "-d", "-q", "--geometric=2", "--write-midx"); err != nil {
		return err
	}
	return r.git.maintain(ctx, r.dir, writeGraph...)
}

// collect is a full repack. It also lets go of what no branch has reached for two weeks, such
// as a status history that was cut; that costs as much as the repository is large.
func (r *repository) collect(ctx context.Context, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, collectTimeout)
	defer cancel()
	// It writes the graph, too. No other gc runs here: a gc.pid is of one that was killed.
	if err := r.git.maintain(ctx, r.dir, "gc", "--quiet", "--force", fmt.Sprintf("--prune=@%d +0000", now.Add(-keepLost).Unix())); err != nil {
		return err
	}
	return errors.Join(os.WriteFile(r.collected(), nil, 0o600), os.Chtimes(r.collected(), now, now))
}

// removeUnfinished removes the packs, and what came with pushes, that are older than an age, of
// processes that were ended. Git itself keeps them for two weeks, and they count until then.
func (r *repository) removeUnfinished(now time.Time, age time.Duration) (err error) {
	for _, kind := range []string{"pack/tmp_pack_*", "pack/tmp_idx_*", "tmp_objdir-*"} {
		paths, bad := filepath.Glob(filepath.Join(r.dir, "objects", filepath.FromSlash(kind)))
		err = errors.Join(err, bad)
		for _, path := range paths {
			if info, gone := os.Stat(path); gone == nil && isOlder(info, now, age) {
				err = errors.Join(err, os.RemoveAll(path))
			}
		}
	}
	return err
}

const (
	// collectEvery is how often what nobody reaches is let go.
	collectEvery = 24 * time.Hour
	// keepLost is how long it is kept: somebody may want it back.
	keepLost = 14 * 24 * time.Hour
)

// collected is a file whose age tells when that was last done.
func (r *repository) collected() string { return filepath.Join(r.dir, "gitbind-collected") }

func (r *repository) isCollectDue(now time.Time) bool {
	info, err := os.Stat(r.collected())
	return err != nil || isOlder(info, now, collectEvery)
}

// isOlder tells whether a file is older than an age. One of a clock that was ahead is: it would
// be young until that time has come.
func isOlder(info os.FileInfo, now time.Time, age time.Duration) bool {
	is := now.Sub(info.ModTime())
	return is > age || is < -clockAhead
}
