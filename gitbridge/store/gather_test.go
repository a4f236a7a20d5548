package store_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gitbind.dev/gitbridge/store/memstore"
	"gitbind.dev/gitbridge/store/storetest"
)

// In a rush pushes take a quarter of the time; an edit that comes alone never
// waits.
func TestEditsThatKeepComingAreGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const push, every, n = 50 * time.Millisecond, 10 * time.Millisecond, 100
		remote := memstore.New()
		pushes := 0
		remote.SetFault(func(c memstore.Call) error {
			if c.Op == memstore.Push && !c.After {
				pushes++
				time.Sleep(push)
			}
			return nil
		})
		branch := remote.Branch("main")
		took := func(name string) time.Duration {
			began := time.Now()
			if _, err := branch.Update(t.Context(), storetest.Put(name, "x")); err != nil {
				t.Error(err)
			}
			return time.Since(began)
		}
		for i := range 3 {
			if d := took(fmt.Sprint("alone", i)); d != push {
				t.Errorf("an edit alone took %s, want %s", d, push)
			}
		}
		pushes = 0
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() {
				time.Sleep(time.Duration(i) * every)
				if d := took(fmt.Sprint(i)); d > 5*push {
					t.Errorf("an edit in a rush took %s", d)
				}
			})
		}
		all.Wait()
		if most := int(n*every/(4*push)) + 3; pushes > most {
			t.Errorf("%d pushes, want at most %d", pushes, most)
		}
		if d := took("alone again"); d != push {
			t.Errorf("an edit after the rush took %s, want %s", d, push)
		}
	})
}
