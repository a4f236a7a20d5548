package statusbranch_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/statusbranch"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/memstore"
)

// clock is one that is set.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

func startAt(t *testing.T) (*fixture, *clock) {
	c := &clock{t: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
	remote := memstore.New()
	b := statusbranch.New(remote.Branch("status"), c.now)
	b.Open("e1", contract.Observed{}, 0)
	if err := b.Start(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	return &fixture{T: t, remote: remote, branch: b}, c
}

func (f *fixture) tombstone(path string, at time.Time) statusbranch.Change {
	f.Helper()
	since := at.Format(time.RFC3339)
	data, err := contract.EncodeStatus(&contract.Status{Result: contract.Gone, UID: "u", Since: since})
	if err != nil {
		f.Fatal(err)
	}
	return statusbranch.Change{Path: path, Data: data, Subject: "status: Gone " + path, Since: since}
}

func (f *fixture) files() []string {
	f.Helper()
	var out []string
	for e := range f.tree().List("") {
		if e.Path != contract.ObservedPath {
			out = append(out, e.Path)
		}
	}
	return out
}

func TestATombstoneEndsWithTheNextCommitAfterThirtyDays(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		t.Run(fmt.Sprintf("restarted=%v", restarted), func(t *testing.T) {
			f, clock := startAt(t)
			f.write(f.tombstone("old", clock.now()))
			f.write(f.tombstone("replaced", clock.now()))
			f.write(f.tombstone("again", clock.now()))
			clock.add(time.Hour)
			f.write(f.tombstone("newer", clock.now()))
			f.write(answer("replaced", 0))
			f.write(answer("again", 0))
			f.write(f.tombstone("again", clock.now()))
			f.write(f.tombstone("of old times", clock.now()))
			f.write(statusbranch.Change{Path: "of old times", Data: []byte("result: Gone\n"), Subject: "x"})
			if restarted {
				before := statusbranch.Observed(f.tree())
				f.branch = statusbranch.New(f.remote.Branch("status"), clock.now)
				f.branch.Open("e1", before, 0)
				if _, err := f.remote.Branch("status").Fetch(t.Context()); err != nil {
					t.Fatal(err)
				}
				for _, g := range []struct {
					path string
					at   time.Time
				}{{"old", clock.now().Add(-time.Hour)}, {"again", clock.now()}, {"again", clock.now().Add(-time.Hour)}, {"newer", clock.now()}} {
					f.branch.NoteTombstone(g.path, g.at.Format(time.RFC3339))
				}
				f.branch.NoteTombstone("of old times", "")
			}
			clock.add(statusbranch.Kept - time.Minute)
			head := f.tree().Head()
			f.write(statusbranch.Change{Path: "never-there"})
			if f.tree().Head() != head {
				t.Error("a tombstone made a commit of its own")
			}
			f.write(answer("x", 0))
			if got := f.files(); !slices.Equal(got, []string{"again", "newer", "of old times", "replaced", "x"}) {
				t.Errorf("files %v", got)
			}
			clock.add(time.Hour)
			f.write(answer("y", 0))
			if got := f.files(); !slices.Equal(got, []string{"of old times", "replaced", "x", "y"}) {
				t.Errorf("files %v", got)
			}
		})
	}
}

// Commits may name claims of one path with another UID each, as fast as they are pushed.
func TestH2_ATombstoneIsNotedOnceForEachPath(t *testing.T) {
	f, clock := startAt(t)
	noted := func(want int) {
		t.Helper()
		if got := f.branch.Tombstones(); got != want {
			t.Errorf("%d tombstones are noted, want %d", got, want)
		}
	}
	for range 1000 {
		clock.add(time.Second)
		f.write(f.tombstone("often", clock.now()))
		f.branch.NoteTombstone("often", clock.now().Format(time.RFC3339))
	}
	f.write(f.tombstone("came back", clock.now()))
	noted(2)
	f.write(answer("came back", 0))
	noted(1)
	clock.add(statusbranch.Kept - time.Second)
	f.write(answer("x", 0))
	if got := f.files(); !slices.Equal(got, []string{"came back", "often", "x"}) {
		t.Errorf("files %v", got)
	}
	clock.add(time.Second)
	f.write(answer("y", 0))
	if got := f.files(); !slices.Equal(got, []string{"came back", "x", "y"}) {
		t.Errorf("files %v", got)
	}
	f.write(answer("z", 0))
	noted(0)
}

func TestATombstoneIsTakenAwayAgainWhenThePushFailed(t *testing.T) {
	f, clock := startAt(t)
	f.write(f.tombstone("old", clock.now()))
	clock.add(statusbranch.Kept)
	f.remote.SetFault(func(c memstore.Call) error {
		if c.Op == memstore.Push && !c.After {
			return fmt.Errorf("%w: no", store.ErrRejected)
		}
		return nil
	})
	if err := f.branch.Write(t.Context(), answer("x", 0)); !errors.Is(err, store.ErrRejected) {
		t.Fatal(err)
	}
	f.remote.SetFault(nil)
	f.write(answer("y", 0))
	if got := f.files(); !slices.Equal(got, []string{"y"}) {
		t.Errorf("files %v", got)
	}
}

func TestManyTombstonesEndInSmallCommits(t *testing.T) {
	f, clock := startAt(t)
	for i := range 150 {
		f.write(f.tombstone(fmt.Sprintf("t/%03d", i), clock.now()))
	}
	clock.add(statusbranch.Kept)
	f.write(answer("x", 0))
	if got := len(f.files()); got != 51 {
		t.Errorf("%d files after the first commit, want 51", got)
	}
	f.write(answer("y", 0))
	if got := f.files(); !slices.Equal(got, []string{"x", "y"}) {
		t.Errorf("files %v", got)
	}
}

func TestALongHistoryIsCut(t *testing.T) {
	f := start(t)
	f.branch.SetHistory(5)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.branch.Settle(ctx, func(err error) {
			if err != nil {
				t.Error(err)
			}
		})
	}()
	reader := f.remote.Branch("status")
	if _, err := reader.Fetch(t.Context()); err != nil {
		t.Fatal(err)
	}
	highest := int64(0)
	for i := range 20 {
		f.write(answer(fmt.Sprintf("p/%d", i), 0))
		o := statusbranch.Observed(f.tree())
		if o.Sequence <= highest || o.Epoch != "e1" {
			t.Fatalf("observed %+v after sequence %d", o, highest)
		}
		highest = o.Sequence
		if got := len(f.files()); got != i+1 {
			t.Fatalf("%d files after %d", got, i+1)
		}
	}
	// A cut that was under way when Settle is ended may still arrive: nothing is
	// left to cut.
	f.wait("it is cut", func() bool {
		o := statusbranch.Observed(f.tree())
		return o.Cut > 0 && o.Sequence-o.Cut < 5
	})
	history := f.remote.History("status")
	if root := history[len(history)-1]; len(history) > 5 || !strings.Contains(root.Message, "begin a new history") || len(root.Parents) > 0 {
		t.Errorf("%d commits; the first says %q", len(history), root.Message)
	}
	snap, err := reader.Fetch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := statusbranch.Observed(snap), statusbranch.Observed(f.tree()); got != want {
		t.Errorf("a reader that was there before observed %+v, want %+v", got, want)
	}
	cancel()
	<-done

	// Another process counts from where it was cut.
	o := statusbranch.Observed(f.tree())
	again := statusbranch.New(f.remote.Branch("status"), time.Now)
	again.SetHistory(1000)
	again.Open("e1", o, 0)
	if err := again.Write(t.Context(), answer("later", 0)); err != nil {
		t.Fatal(err)
	}
	if got := statusbranch.Observed(f.tree()); got.Cut != o.Cut {
		t.Errorf("observed %+v after %+v", got, o)
	}
}

func TestAHostThatAllowsNoCutIsNotAskedAgainAndAgain(t *testing.T) {
	f := start(t)
	f.branch.SetHistory(3)
	var mu sync.Mutex
	cuts := 0
	f.remote.SetFault(func(c memstore.Call) error {
		mu.Lock()
		defer mu.Unlock()
		if c.Op == memstore.Push && !c.After && len(c.Pushed.Commit().Parents) == 0 {
			cuts++
			return fmt.Errorf("%w: no force", store.ErrRejected)
		}
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go f.branch.Settle(ctx, func(err error) {
		if err != nil {
			t.Error(err)
		}
	})
	for i := range 20 {
		f.write(answer(fmt.Sprintf("p/%d", i), 0))
	}
	f.wait("it was tried", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return cuts > 0
	})
	mu.Lock()
	defer mu.Unlock()
	if cuts > 3 { // after 3, 6, and 12 commits
		t.Errorf("%d tries", cuts)
	}
}

func (f *fixture) wait(what string, ok func() bool) {
	f.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			f.Fatal("never: ", what)
		}
	}
}

// A bridge that ends may push once more after its successor has looked: what it
// answered is looked at again.
func TestWhatAnotherBridgeWroteIsSeen(t *testing.T) {
	f := start(t)
	f.write(answer("a", 0))
	old := statusbranch.New(f.remote.Branch("status"), time.Now)
	old.Open("e1", statusbranch.Observed(f.tree()), 0)
	if err := old.Write(t.Context(), answer("b", 0)); err != nil {
		t.Fatal(err)
	}
	if err := f.branch.Write(t.Context(), answer("c", 0)); !errors.Is(err, statusbranch.ErrForeign) || !f.branch.IsForeign() {
		t.Fatalf("got %v", err)
	}
	f.branch.Open("e1", statusbranch.Observed(f.tree()), 0)
	f.write(answer("c", 0))
	if err := old.Write(t.Context(), answer("d", 0)); !errors.Is(err, statusbranch.ErrForeign) {
		t.Errorf("the old one goes on: %v", err)
	}
}

func TestASequenceThatIsKnownToBeReachedIsNotGivenOutAgain(t *testing.T) {
	f := start(t)
	f.branch.Open("e1", statusbranch.Observed(f.tree()), 1000)
	f.write(answer("a", 0))
	if got := statusbranch.Observed(f.tree()); got.Sequence <= 1000 {
		t.Errorf("observed %+v", got)
	}
}
