package claim

import (
	"testing"
	"testing/synctest"
	"time"

	"gitbind.dev/gitbridge/contract"
)

func TestAWaitBeginsOnceForWhatIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		orders, users := contract.Key{Name: "orders"}, contract.Key{Name: "users"}
		var w waits
		rest := func(why string, key contract.Key, what string, want time.Duration) {
			t.Helper()
			if got := w.rest(key, what, time.Second); got != want {
				t.Errorf("%s: %s is left, want %s", why, got, want)
			}
		}
		rest("it begins", orders, "b1", time.Second)
		time.Sleep(600 * time.Millisecond)
		rest("it goes on", orders, "b1", 400*time.Millisecond)
		rest("that of another claim begins", users, "b1", time.Second)
		time.Sleep(600 * time.Millisecond)
		rest("it is over", orders, "b1", -200*time.Millisecond)
		rest("that for another file begins", orders, "b2", time.Second)
		time.Sleep(600 * time.Millisecond)
		w.end(orders)
		rest("one that ended begins again", orders, "b2", time.Second)
		rest("and no other", users, "b1", -200*time.Millisecond)
	})
}
