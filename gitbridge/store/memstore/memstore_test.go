package memstore_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/memstore"
	"gitbind.dev/gitbridge/store/storetest"
)

func Test(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Remote {
		r := &remote{Remote: memstore.New()}
		r.Committer = store.Signature{Name: "committer", Email: "committer@example.org"}
		r.SetFault(r.fault)
		return r
	})
}

type remote struct {
	*memstore.Remote
	lose, breaks atomic.Int64
	then         atomic.Pointer[func()]
	path, words  string
}

var errBroken = errors.New("connection broken")

func (r *remote) fault(c memstore.Call) error {
	switch {
	case c.Op == memstore.Push && c.After && r.lose.Add(-1) >= 0:
		if then := r.then.Load(); *then != nil {
			(*then)()
		}
		return errBroken
	case !c.After && r.breaks.Add(-1) >= 0:
		return errBroken
	case c.Op == memstore.Push && !c.After && r.path != "":
		if _, ok := c.Pushed.Entry(r.path); ok {
			return fmt.Errorf("%w: %s", store.ErrRejected, r.words)
		}
	}
	return nil
}

func (r *remote) LoseAnswers(n int, then func()) {
	r.then.Store(&then)
	r.lose.Store(int64(n))
}

func (r *remote) Break(n int)                        { r.breaks.Store(int64(n)) }
func (r *remote) Reject(path, words string)          { r.path, r.words = path, words }
func (r *remote) Force(branch string, to store.Hash) { r.ForceHead(branch, to) }
func (r *remote) Collect()                           {}

// While the remote is silent, many may ask for the head of a branch.
func TestAFetchThatFailsFailsForAllWhoWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const waiting = 20
		remote, silent, asked := memstore.New(), make(chan struct{}), 0
		away := errors.New("the remote does not answer")
		remote.SetFault(func(memstore.Call) error {
			if asked++; asked == 1 {
				<-silent
			}
			return away
		})
		b := remote.Branch("main")
		errs := make(chan error, 1+waiting)
		fetch := func() {
			_, err := b.Fetch(t.Context())
			errs <- err
		}
		go fetch()
		synctest.Wait()
		for range waiting {
			go fetch()
		}
		synctest.Wait()
		close(silent)
		for range 1 + waiting {
			if err := <-errs; !errors.Is(err, away) {
				t.Error(err)
			}
		}
		// The first of those who waited may have been told before.
		if asked != 2 {
			t.Errorf("the remote was asked %d times", asked)
		}
		remote.SetFault(nil)
		if _, err := b.Fetch(t.Context()); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}
