package hostile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// memoryGroup is a control group that holds a process, and all that it starts, to a
// limit of memory, as a container's does: who needs more is killed.
type memoryGroup struct {
	dir string
	// unified is cgroup v2, otherwise it is v1.
	unified bool
	peak    atomic.Int64
}

const (
	cgroupV1 = "/sys/fs/cgroup/memory"
	cgroupV2 = "/sys/fs/cgroup"
)

// holdMemory moves a process into a new group.
func holdMemory(name string, pid int, limit int64) (*memoryGroup, error) {
	g, err := newMemoryGroup(name, pid, limit)
	if err != nil {
		return nil, err
	}
	if err := g.write("cgroup.procs", strconv.Itoa(pid)); err != nil {
		return nil, errors.Join(err, g.remove())
	}
	return g, nil
}

// newMemoryGroup makes a group. It needs root.
func newMemoryGroup(name string, pid int, limit int64) (*memoryGroup, error) {
	g := &memoryGroup{dir: filepath.Join(cgroupV1, fmt.Sprintf("gitbind-%s-%d", name, pid))}
	file := "memory.limit_in_bytes"
	if _, err := os.Stat(filepath.Join(cgroupV2, "cgroup.controllers")); err == nil {
		g.unified, g.dir, file = true, filepath.Join(cgroupV2, filepath.Base(g.dir)), "memory.max"
	}
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		return nil, fmt.Errorf("hold %s to %d MiB of memory: %w", name, limit>>20, err)
	}
	if err := g.write(file, strconv.FormatInt(limit, 10)); err != nil {
		return nil, errors.Join(err, g.remove())
	}
	if g.unified {
		// As the kubelet does: with one process, all of them are killed.
		if err := g.write("memory.oom.group", "1"); err != nil {
			return nil, errors.Join(err, g.remove())
		}
	}
	return g, nil
}

func (g *memoryGroup) write(file, value string) error {
	return os.WriteFile(filepath.Join(g.dir, file), []byte(value), 0o644)
}

// remove works when the processes are gone.
func (g *memoryGroup) remove() error { return os.Remove(g.dir) }

// watch keeps the most that was used, without what the kernel caches of files.
func (g *memoryGroup) watch(ctx context.Context) {
	field := "total_rss"
	if g.unified {
		field = "anon"
	}
	for tick := time.NewTicker(50 * time.Millisecond); ; {
		data, _ := os.ReadFile(filepath.Join(g.dir, "memory.stat"))
		for line := range strings.Lines(string(data)) {
			if name, value, _ := strings.Cut(strings.TrimSpace(line), " "); name == field {
				if n, err := strconv.ParseInt(value, 10, 64); err == nil && n > g.peak.Load() {
					g.peak.Store(n)
				}
			}
		}
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case <-tick.C:
		}
	}
}

// most is the most that was used, in bytes; 0 of nil.
func (g *memoryGroup) most() int64 {
	if g == nil {
		return 0
	}
	return g.peak.Load()
}
