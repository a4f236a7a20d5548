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
)

// repackTimeout bounds one repack.
const repackTimeout = 30 * time.Minute

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

// repackQueued repacks a repository that was in the queue.
func (h *Host) repackQueued(ctx context.Context, id string) error {
	repo, ok, err := h.repository(id)
	switch {
	case ctx.Err() != nil: // the queue gives what it has before it ends
	case err != nil:
		h.cfg.Log.Error("Repack failed", "cluster", id, "error", err)
		return err
	case ok:
		h.repackOne(ctx, repo)
	}
	return nil
}

// repackOne rolls the many small packs of single pushes into few of growing
// size: the cost follows what is new, not the size of the repository. Once a day
// it also lets go of what no branch has reached for two weeks, such as a status
// history that was cut; that costs as much as the repository is large.
func (h *Host) repackOne(ctx context.Context, repo *repository) {
	ctx, cancel := context.WithTimeout(ctx, repackTimeout)
	defer cancel()
	repo.pushes.Store(1) // those from now on may come too late for this repack
	args := []string{"repack", "-d", "-q", "--geometric=2", "--write-midx"}
	full := repo.collectedBefore(h.now().Add(-collectEvery))
	if full {
		args = []string{"gc", "--quiet", fmt.Sprintf("--prune=@%d +0000", h.now().Add(-keepLost).Unix())}
	}
	before, start := repo.packs(), time.Now()
	repo.collecting.Lock()
	defer repo.collecting.Unlock()
	err := repo.git.maintain(ctx, repo.dir, args...)
	if err == nil && !full { // gc writes it, too
		err = repo.git.maintain(ctx, repo.dir, writeGraph...)
	}
	repo.measure()
	if err == nil && full {
		err = errors.Join(os.WriteFile(repo.collected(), nil, 0o600), os.Chtimes(repo.collected(), h.now(), h.now()))
	}
	if err != nil {
		// Whether it was killed or not: what it holds is let go by now.
		repo.killed.Store(true)
		if ctx.Err() == nil {
			h.cfg.Log.Error("Repack failed", "cluster", repo.id, "error", err)
		}
		return
	}
	h.cfg.Log.Info("Repacked", "cluster", repo.id, "full", full, "packsBefore", before, "packs", repo.packs(), "took", time.Since(start).Round(time.Millisecond).String())
}

const (
	// collectEvery is how often what nobody reaches is let go.
	collectEvery = 24 * time.Hour
	// keepLost is how long it is kept: somebody may want it back.
	keepLost = 14 * 24 * time.Hour
)

// collected is a file whose age tells when that was last done.
func (r *repository) collected() string { return filepath.Join(r.dir, "gitbind-collected") }

func (r *repository) collectedBefore(t time.Time) bool {
	info, err := os.Stat(r.collected())
	return err != nil || info.ModTime().Before(t)
}
