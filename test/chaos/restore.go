package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/test/env"
	"gitbind.dev/test/fsck"
)

// host is the folder of the repository at the Git host, as its administrator has it at hand.
//
// It is locked while the host is restored to an older state and has not been given back what
// it lost. People who push, approve, or read main hold it for reading: the administrator has
// told them to wait, as who pushes to the older main forks it. The agents are told nothing,
// and kubectl writes go on.
type host struct {
	repository string
	// kept is the folder for backups and for what they replaced.
	kept string
	sync.RWMutex

	// restores counts the restores. After one, agents may say that main does not continue what
	// they accepted. Some faults in a row keep them from hearing for minutes that it does again;
	// in the end nothing is held.
	restores atomic.Int64
}

// restorePause is how long the host is left alone after a restore, at least: what was held is
// to go on, and to be looked at.
const restorePause = 30 * time.Second

// restore takes a backup, and restores the host from it when it has become old. For as long
// as the fault lasts then, the host lacks what is newer. In the end it is given all of it
// back, as docs/recovery.md has it.
func (i *injector) restore(ctx context.Context, f Fault) {
	h, p := i.sides.host, i.process(f.Process)
	if p == nil {
		i.say("there is no process %s", f.Process)
		return
	}
	backup := filepath.Join(h.kept, fmt.Sprintf("backup-%d.git", f.At.Milliseconds()))
	replaced := filepath.Join(h.kept, fmt.Sprintf("replaced-%d.git", f.At.Milliseconds()))
	err := errors.Join(i.end(p), h.copyTo(ctx, backup))
	i.hold(f.Process, false)
	if err == nil {
		// What is wrong by now was so before the restore: the host left it when it was killed.
		err = fsck.Check(ctx, backup, "--connectivity-only")
	}
	if err != nil {
		i.fail("the Git host could not be backed up: %v", err)
		return
	}
	sleep(ctx, f.Age)
	i.severe.Lock()
	defer i.severe.Unlock()
	if err := i.awaitSaved(ctx, backup); err != nil {
		i.say("the Git host is not restored: %v", err)
		return
	}
	i.say("%s %s to %s before, for %s", f.Kind, f.Process, f.Age.Round(time.Millisecond), f.For.Round(time.Millisecond))
	h.restores.Add(1)
	// First of all it is gone: nobody waits for who pushes.
	err = i.end(p)
	h.Lock()
	defer h.Unlock()
	err = errors.Join(err, os.Rename(h.repository, replaced), os.Rename(backup, h.repository))
	had, errHad := branches(ctx, replaced)
	outdated, errOutdated := h.outdated(ctx, had)
	err = errors.Join(err, errHad, errOutdated)
	i.hold(f.Process, false)
	if err != nil {
		i.fail("the Git host could not be restored: %v", err)
		return
	}
	sleep(ctx, f.For)
	if err := h.giveBack(context.WithoutCancel(ctx), replaced, had, outdated); err != nil {
		i.fail("the Git host cannot be given back what it had: %v", err)
		return
	}
	i.say("the Git host has been given back what it had")
	// Its start tells the agents to look.
	if err := i.end(p); err != nil {
		i.say("%v", err)
	}
	i.hold(f.Process, false)
	i.count(f)
}

// savedAtMost is how long a restore waits for agents to save what they accepted.
const savedAtMost = 30 * time.Second

// awaitSaved waits until both agents have saved a commit of main that continues the one of a
// backup, and is another one. An agent that restarts goes on from what it saved: if that is in
// the backup, it rightly commits to the restored main, and nobody here merges that with what was
// lost.
func (i *injector) awaitSaved(ctx context.Context, backup string) error {
	ctx, cancel := context.WithTimeout(ctx, savedAtMost)
	defer cancel()
	head, err := git(ctx, backup, "rev-parse", "main")
	if err != nil {
		return err
	}
	commit := strings.TrimSpace(string(head))
	for ; ctx.Err() == nil; sleep(ctx, 200*time.Millisecond) {
		var isSaved bool
		if isSaved, err = i.sides.haveSavedAfter(ctx, commit); isSaved {
			return nil
		}
	}
	return fmt.Errorf("agents have not saved a commit after %.10s: %w", commit, cmp.Or(err, ctx.Err()))
}

// end kills a process and has it held. One that somebody is starting is gone, too, when it
// returns.
func (i *injector) end(p *env.Process) error {
	i.hold(p.Name, true)
	for {
		if err := p.Kill(); err != nil || !i.isStarting(p.Name) {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// unchangedAtMost is how long a copy of the repository waits for nobody to write to it.
const unchangedAtMost = 30 * time.Second

// copyTo copies the repository as it is at a moment at which nobody writes to it. Git outlives a
// host that is killed here, where all of a pod ends: it may move a branch to objects that were not
// there yet when the others were copied. If there is no such moment, it is an error, and the last
// copy stays.
func (h *host) copyTo(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, unchangedAtMost)
	defer cancel()
	for {
		before, err := modified(h.repository)
		err = errors.Join(err, os.CopyFS(dir, os.DirFS(h.repository)))
		after, errAfter := modified(h.repository)
		switch err = errors.Join(err, errAfter); {
		case err == nil && maps.EqualFunc(before, after, time.Time.Equal):
			return nil
		case err != nil && !errors.Is(err, os.ErrNotExist):
			return err
		case ctx.Err() != nil:
			return fmt.Errorf("copy %s: somebody writes to it: %w", h.repository, cmp.Or(err, ctx.Err()))
		}
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
		sleep(ctx, 200*time.Millisecond)
	}
}

// modified gives when each file and folder below a folder was modified.
func modified(dir string) (map[string]time.Time, error) {
	all := map[string]time.Time{}
	return all, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil {
			all[path] = info.ModTime()
		}
		return err
	})
}

// giveBack pushes to the folder of the host what it lost: the branches that those who have all of
// them give back, and what is kept of lost conflicts. What the agents have written to theirs
// meanwhile, they write again. The bridge may write status in that moment. Outdated changes
// become what they were, where nobody has proposed them again, so that nobody approves them. Had
// are the branches of the repository from which they come. It is done at once or not at all: with
// main given back, and something else not, the konnector would go on from that main.
func (h *host) giveBack(ctx context.Context, from string, had, outdated map[string]string) (err error) {
	for range 20 {
		args := []string{"push", "--quiet", "--atomic", h.repository, "main", "+status"}
		var now map[string]string
		if now, err = branches(ctx, h.repository); err == nil {
			for ref := range had {
				if strings.HasPrefix(ref, contract.HeadsPrefix+contract.ConflictsPrefix) && now[ref] == "" {
					args = append(args, ref)
				}
			}
			for ref, commit := range outdated {
				switch {
				case now[ref] != commit:
				case had[ref] == "":
					args = append(args, ":"+ref)
				default:
					args = append(args, "+"+ref)
				}
			}
			if _, err = git(ctx, from, args...); err == nil {
				return nil
			}
		}
		sleep(ctx, 200*time.Millisecond)
	}
	return fmt.Errorf("%w\nOn main was committed meanwhile, though all were to wait:\n%s", err, h.forked(ctx, from))
}

// outdated are the branches that are not as another repository had them, or that it had no
// more: changes were proposed again, merged or taken back, which nothing in the host tells.
func (h *host) outdated(ctx context.Context, had map[string]string) (map[string]string, error) {
	has, err := branches(ctx, h.repository)
	maps.DeleteFunc(has, func(ref, commit string) bool { return had[ref] == commit })
	return has, err
}

// branches are those of proposed changes and of lost conflicts, with where they are.
func branches(ctx context.Context, repository string) (map[string]string, error) {
	out, err := git(ctx, repository, "for-each-ref", "--format=%(refname) %(objectname)",
		contract.HeadsPrefix+contract.ChangesPrefix+"**", contract.HeadsPrefix+contract.ConflictsPrefix+"**")
	all := map[string]string{}
	for line := range strings.Lines(string(out)) {
		ref, commit, _ := strings.Cut(strings.TrimSpace(line), " ")
		all[ref] = commit
	}
	return all, err
}

// git runs it in a repository, and gives what it says.
func git(ctx context.Context, dir string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, exit.Stderr)
	}
	return out, err
}

// forked are the commits that the host's main has and another repository's lacks.
func (h *host) forked(ctx context.Context, from string) string {
	if _, err := git(ctx, from, "fetch", "--quiet", h.repository, "main"); err != nil {
		return err.Error()
	}
	out, err := git(ctx, from, "log", "--topo-order", "--format=%h %cd %cn: %s", "main..FETCH_HEAD")
	return fmt.Sprintln(string(out), err)
}
