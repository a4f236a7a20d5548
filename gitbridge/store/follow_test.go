package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/memstore"
	"gitbind.dev/gitbridge/store/storetest"
)

// follow starts Follow in a bubble, in which time passes only while all wait.
// What it tells is collected in log.
type follow struct {
	*testing.T
	remote *memstore.Remote
	// reader is the branch that is followed, and writer is of another process.
	reader, writer store.Branch
	wake           chan store.Hash
	mu             sync.Mutex
	log            []string
	fail           error
	loads          atomic.Int64
	heads          atomic.Int64
	broken         atomic.Bool
	again          atomic.Bool
}

func newFollow(t *testing.T, test func(f *follow)) {
	synctest.Test(t, func(t *testing.T) {
		f := &follow{T: t, remote: memstore.New(), wake: make(chan store.Hash, 1)}
		f.writer, f.reader = f.remote.Branch("main"), f.remote.Branch("main")
		f.remote.SetFault(func(c memstore.Call) error {
			switch {
			case f.broken.Load():
				return errors.New("broken")
			case !c.After && c.Op == memstore.Load:
				f.loads.Add(1)
			case !c.After && c.Op == memstore.Head:
				f.heads.Add(1)
			}
			return nil
		})
		f.put("x", "0")
		f.heads.Store(0)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			store.Follow(ctx, store.FollowOptions{
				Branch: f.reader, Wake: f.wake, Poll: time.Hour,
				OnChange: func(_ context.Context, old, new *store.Snapshot) error {
					return f.tell(fmt.Sprintf("%q to %q", read(old), read(new)))
				},
				OnError: func(err error) { _ = f.tell(fmt.Sprint(err)) },
				Again:   f.again.Load,
			})
		}()
		synctest.Wait()
		test(f)
		cancel()
		<-done
	})
}

func read(s *store.Snapshot) string {
	data, _ := s.Read("x")
	return string(data)
}

func (f *follow) put(path, content string) store.Hash {
	f.Helper()
	snap, err := f.writer.Update(f.Context(), storetest.Put(path, content))
	if err != nil {
		f.Fatal(err)
	}
	return snap.Head()
}

func (f *follow) tell(s string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = append(f.log, s)
	return f.fail
}

func (f *follow) failWith(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail = err
}

// told is what was told since the last time.
func (f *follow) told() (log []string) {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	log, f.log = f.log, nil
	return log
}

func (f *follow) want(log ...string) {
	f.Helper()
	if got := f.told(); fmt.Sprint(got) != fmt.Sprint(log) {
		f.Fatalf("it told %q, want %q", got, log)
	}
}

func TestFollowLooksAtStartWhenWokenAndFromTimeToTime(t *testing.T) {
	newFollow(t, func(f *follow) {
		f.want(`"" to "0"`, "<nil>")
		store.Tell(f.wake, f.put("x", "1"))
		f.want(`"0" to "1"`)
		f.put("x", "2")
		store.Tell(f.wake, "")
		f.want(`"1" to "2"`)
		f.put("x", "3")
		f.want()
		time.Sleep(72 * time.Minute)
		f.want(`"2" to "3"`)
	})
}

// What this process pushes is not looked at by itself.
func TestFollowTellsOfABranchThatIsSetBackToWhatItSawLast(t *testing.T) {
	newFollow(t, func(f *follow) {
		f.want(`"" to "0"`, "<nil>")
		first := f.remote.Head("main")
		if _, err := f.reader.Update(f.Context(), storetest.Put("x", "1")); err != nil {
			f.Fatal(err)
		}
		f.remote.ForceHead("main", first)
		store.Tell(f.wake, "")
		f.want(`"0" to "0"`)
		store.Tell(f.wake, "")
		f.want()
	})
}

func TestFollowTellsOfABranchThatIsSetBackUntilThatIsTaken(t *testing.T) {
	newFollow(t, func(f *follow) {
		f.want(`"" to "0"`, "<nil>")
		first := f.remote.Head("main")
		if _, err := f.reader.Update(f.Context(), storetest.Put("x", "1")); err != nil {
			f.Fatal(err)
		}
		f.remote.ForceHead("main", first)
		f.failWith(errors.New("not now"))
		store.Tell(f.wake, "")
		f.want(`"0" to "0"`, "not now")
		f.failWith(nil)
		time.Sleep(1500 * time.Millisecond)
		f.want(`"0" to "0"`, "<nil>")
	})
}

func TestFollowCallsAgainWhereItIsAskedTo(t *testing.T) {
	newFollow(t, func(f *follow) {
		f.want(`"" to "0"`, "<nil>")
		f.again.Store(true)
		store.Tell(f.wake, "")
		f.want(`"0" to "0"`)
		f.again.Store(false)
		store.Tell(f.wake, "")
		f.want()
	})
}

func TestFollowAsksNothingForAHintThatItKnows(t *testing.T) {
	newFollow(t, func(f *follow) {
		head := f.put("x", "1")
		store.Tell(f.wake, head)
		f.want(`"" to "0"`, "<nil>", `"0" to "1"`)
		loads, heads := f.loads.Load(), f.heads.Load()
		if loads != 2 || heads != 1 {
			t.Errorf("%d loads, %d questions for the head; want 2 and that of the start", loads, heads)
		}
		store.Tell(f.wake, head)
		f.want()
		if f.loads.Load() != loads || f.heads.Load() != heads {
			t.Error("it asked for what it knows")
		}
	})
}

func TestFollowTriesAgainWithTheSameOld(t *testing.T) {
	newFollow(t, func(f *follow) {
		f.want(`"" to "0"`, "<nil>")
		f.failWith(errors.New("not now"))
		store.Tell(f.wake, f.put("x", "1"))
		f.want(`"0" to "1"`, "not now")
		f.put("x", "2")
		time.Sleep(1500 * time.Millisecond)
		f.want(`"0" to "2"`, "not now")
		f.failWith(nil)
		time.Sleep(time.Minute)
		f.want(`"0" to "2"`, "<nil>")
	})
}

func TestFollowIsNotWokenIntoAStorm(t *testing.T) {
	newFollow(t, func(f *follow) {
		f.want(`"" to "0"`, "<nil>")
		f.failWith(errors.New("not now"))
		for i := range 100 {
			store.Tell(f.wake, f.put("x", fmt.Sprint(i+1)))
			time.Sleep(100 * time.Millisecond)
		}
		if n := len(f.told()) / 2; n < 5 || n > 11 {
			t.Errorf("%d tries in 10 seconds", n)
		}
	})
}

func TestFollowReportsAndSurvivesABrokenRemote(t *testing.T) {
	newFollow(t, func(f *follow) {
		f.want(`"" to "0"`, "<nil>")
		f.put("x", "1")
		f.broken.Store(true)
		store.Tell(f.wake, "")
		f.want("fetch: broken")
		time.Sleep(10 * time.Minute)
		if n := len(f.told()); n < 30 || n > 60 {
			t.Errorf("%d tries in 10 minutes", n)
		}
		f.broken.Store(false)
		time.Sleep(80 * time.Second)
		f.want(`"0" to "1"`, "<nil>")
	})
}

func TestFollowTellsOfABranchThatDoesNotExist(t *testing.T) {
	newFollow(t, func(f *follow) {
		f.want(`"" to "0"`, "<nil>")
		f.remote.ForceHead("main", "")
		store.Tell(f.wake, "")
		f.want(`"0" to ""`)
		f.put("x", "again")
		store.Tell(f.wake, "")
		f.want(`"" to "again"`)
	})
}
