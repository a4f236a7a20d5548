package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/util/workqueue"
)

// maintained is a Host that repacks, with a clock that can be set forward.
type maintained struct {
	*served
	t testing.TB
	// ahead is how far the clock is, in nanoseconds.
	ahead atomic.Int64
	// dir is the script's folder, with the list of what ran.
	dir string
}

// maintain has the Host run until the test ends. Each "git gc" and "git repack" of it is
// written to a list, and then the script runs, in the folder for what the test tells it.
func maintain(t *testing.T, script string) *maintained {
	t.Helper()
	s := serve(t, func(c *Config) { c.RepackAfter = 2 })
	m := &maintained{served: s, t: t, dir: t.TempDir()}
	text := fmt.Sprintf(`#!/bin/sh
case $1 in gc|repack)
	echo "$1 $(basename "$PWD" .git)" >> %[1]s/ran
	(cd %[1]s; %[2]s
	) || exit 1;;
esac
exec %[3]s "$@"
`, m.dir, script, s.git.program)
	s.git.program = filepath.Join(m.dir, "git")
	if err := os.WriteFile(s.git.program, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	s.now = func() time.Time { return time.Now().Add(time.Duration(m.ahead.Load())) }
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return m
}

// repo is one of the Host's repositories.
func (m *maintained) repo(id string) *repository {
	m.t.Helper()
	repo, ok, err := m.repository(id)
	if err != nil || !ok {
		m.t.Fatal(ok, err)
	}
	return repo
}

// pushed counts a push to a repository. One is enough for a repack: there is a pack before it.
func (m *maintained) pushed(id string) {
	m.t.Helper()
	m.countPush(m.repo(id))
}

// list is what ran, each as "<command> <repository>".
func (m *maintained) list() []string {
	b, _ := os.ReadFile(filepath.Join(m.dir, "ran")) // nothing ran before it is there
	lines := strings.Split(string(b), "\n")
	return lines[:len(lines)-1]
}

// ran waits until as much ran as is wanted, which must be that. The last may go on.
func (m *maintained) ran(t *testing.T, want ...string) {
	t.Helper()
	soon(t, strings.Join(want, ", "), func() bool { return len(m.list()) >= len(want) })
	if d := cmp.Diff(want, m.list()); d != "" {
		t.Fatalf("what ran (-want +got):\n%s", d)
	}
}

// at sets the clock forward to so long after the start, when the repack of a repository has ended.
func (m *maintained) at(id string, ahead time.Duration) {
	m.t.Helper()
	repo := m.repo(id)
	repo.collecting.Lock()
	defer repo.collecting.Unlock()
	m.ahead.Store(int64(ahead))
}

func (m *maintained) tell(name string) string {
	m.t.Helper()
	path := filepath.Join(m.dir, name)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		m.t.Fatal(err)
	}
	return path
}

func TestH4_ARepositoryThatIsPushedToOftenIsRepackedInTurnWithOthers(t *testing.T) {
	t.Parallel()
	m := maintain(t, "while ! [ -e go-on ]; do sleep 0.02; done")
	m.pushed(cluster)
	m.ran(t, "gc "+cluster)
	// While that goes on.
	for range 3000 {
		m.pushed(cluster)
	}
	m.pushed(other)
	m.tell("go-on")
	m.ran(t, "gc "+cluster, "gc "+other, "repack "+cluster)
	// Whatever waits by now comes before this.
	m.pushed(other)
	m.ran(t, "gc "+cluster, "gc "+other, "repack "+cluster, "repack "+other)
	for _, id := range []string{cluster, other} {
		if n := m.repo(id).pushes.Load(); n > 1 {
			t.Errorf("%s: %d pushes still count", id, n)
		}
	}
}

// A full repack may take longer than it is given, or more memory, for as long as the repository
// has the files that it has.
func TestH4_AFullRepackThatFailsIsTriedAgainAfterABackOffAndPushesAreRolledUpMeanwhile(t *testing.T) {
	t.Parallel()
	m := maintain(t, `! tail -n 1 ran | grep -q gc || [ -e works ]`)
	const gc, repack = "gc " + cluster, "repack " + cluster
	var ran []string
	push := func(ahead time.Duration, runs ...string) {
		t.Helper()
		m.at(cluster, ahead)
		m.pushed(cluster)
		ran = append(ran, runs...)
		m.ran(t, ran...)
	}
	push(0, gc, repack)
	push(9*time.Minute, repack)
	push(11*time.Minute, gc, repack)
	push(30*time.Minute, repack) // it waits for twice as long as before
	push(32*time.Minute, gc, repack)
	works := m.tell("works")
	push(2*time.Hour, gc)
	// The next one is a day later, as always, and failures before do not count.
	m.at(cluster, 2*time.Hour)
	if err := os.Remove(works); err != nil {
		t.Fatal(err)
	}
	push(25*time.Hour, repack)
	push(27*time.Hour, gc, repack)
	push(27*time.Hour+9*time.Minute, repack)
	push(27*time.Hour+11*time.Minute, gc, repack)
}

func TestH4_ARepackThatFailsWaitsHoweverManyPushesCome(t *testing.T) {
	t.Parallel()
	m := maintain(t, `! tail -n 1 ran | grep -q "repack `+cluster+`" || ! [ -e fails ]`)
	fails := m.tell("fails")
	m.pushed(cluster)
	m.pushed(other)
	ran := []string{"gc " + cluster, "gc " + other}
	m.ran(t, ran...)
	push := func(ahead time.Duration, runs ...string) {
		t.Helper()
		m.ahead.Store(int64(ahead))
		m.pushed(cluster)
		m.pushed(other) // it comes after what runs for the first one
		ran = append(append(ran, runs...), "repack "+other)
		m.ran(t, ran...)
	}
	const repack = "repack " + cluster
	push(0, repack)
	push(9 * time.Minute)
	push(11*time.Minute, repack)
	push(30 * time.Minute)
	if err := os.Remove(fails); err != nil {
		t.Fatal(err)
	}
	push(32*time.Minute, repack)
	push(32*time.Minute, repack)
}

func TestARepackThatFailedIsTriedAgainWithoutAPush(t *testing.T) {
	t.Parallel()
	m := maintain(t, `! tail -n 1 ran | grep -q repack || [ "$(grep -c repack ran)" -gt 3 ]`)
	m.pushed(cluster)
	m.ran(t, "gc "+cluster)
	m.at(cluster, 0)
	m.repackBackoff = workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Millisecond, time.Millisecond)
	m.pushed(cluster)
	const repack = "repack " + cluster
	m.ran(t, "gc "+cluster, repack, repack, repack, repack)
	m.at(cluster, 0)
	if m.repackBackoff.NumRequeues(cluster) > 0 {
		t.Error("it is not done")
	}
}

func TestH4_AFullRepackThatFailedIsTriedAgainWithoutAPush(t *testing.T) {
	t.Parallel()
	m := maintain(t, `! tail -n 1 ran | grep -q gc || [ "$(grep -c gc ran)" -gt 2 ]`)
	m.collectBackoff = workqueue.NewTypedItemExponentialFailureRateLimiter[string](100*time.Millisecond, 100*time.Millisecond)
	m.pushed(cluster)
	const gc, repack = "gc " + cluster, "repack " + cluster
	m.ran(t, gc, repack, gc, repack, gc)
	m.at(cluster, 0)
	if m.collectBackoff.NumRequeues(cluster) > 0 {
		t.Error("it is not done")
	}
}

// Otherwise what no branch reaches would stay, and count towards the quota, until that time.
func TestH4_AFullRepackOfAClockThatWasAheadPutsOffNoOther(t *testing.T) {
	t.Parallel()
	m := maintain(t, "true")
	const gc, repack = "gc " + cluster, "repack " + cluster
	m.pushed(cluster)
	m.ran(t, gc)
	m.at(cluster, 0)
	ahead := time.Now().AddDate(1, 0, 0)
	if err := os.Chtimes(m.repo(cluster).collected(), ahead, ahead); err != nil {
		t.Fatal(err)
	}
	m.pushed(cluster)
	m.ran(t, gc, gc)
	m.at(cluster, 0)
	m.pushed(cluster)
	m.ran(t, gc, gc, repack)
}

// By the gc.pid that it leaves git takes it for one that runs: for half a day where the host had
// another name, as each pod has.
func TestH4_AFullRepackThatWasKilledInAnotherPodPutsOffNoOther(t *testing.T) {
	t.Parallel()
	s := serve(t)
	repo, _, err := s.repository(cluster)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.bare(), "gc.pid"), []byte("7 gitbind-backend-before"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.repackOne(t.Context(), repo)
	if repo.isCollectDue(time.Now()) {
		t.Error("it is due still")
	}
}

// What a git that was ended had begun to write would count towards the quota for two weeks.
func TestH4_WhatAnEndedGitLeftIsRemovedWithTheNextRepack(t *testing.T) {
	t.Parallel()
	s := serve(t)
	repo, _, err := s.repository(cluster)
	if err != nil {
		t.Fatal(err)
	}
	objects := filepath.Join(s.bare(), "objects")
	path := func(age, name string) string { return filepath.Join(objects, strings.ReplaceAll(name, "AGE", age)) }
	names := []string{"pack/tmp_pack_AGE", "pack/tmp_idx_AGE", "tmp_objdir-incoming-AGE/pack/tmp_pack_x", "pack/tmp_pack-AGE_idx"}
	for age, then := range map[string]time.Time{"old": time.Now().Add(-2 * time.Hour), "new": time.Now(), "ahead": time.Now().AddDate(1, 0, 0)} {
		for _, name := range names {
			file := path(age, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte("x"), 0o600), os.Chtimes(file, then, then)); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chtimes(path(age, "tmp_objdir-incoming-AGE"), then, then); err != nil {
			t.Fatal(err)
		}
	}
	s.repackOne(t.Context(), repo)
	for i, name := range names {
		for age, want := range map[string]bool{"old": i == 3, "new": true, "ahead": i == 3} {
			if got := there(path(age, name)); got != want {
				t.Errorf("%s: it is there: %t, want %t", path(age, name), got, want)
			}
		}
	}
}
