package budget

import (
	"strconv"
	"testing"
	"time"

	"gitbind.dev/gitbridge/contract"
)

var start = time.Unix(1_800_000_000, 0)

func key(name string) contract.Key { return contract.Key{Binding: "b", Namespace: "n", Name: name} }

func TestSpentAndLeftAgain(t *testing.T) {
	t.Parallel()
	b := &Budget{Most: 3, Every: time.Second}
	spend := func(name string, after time.Duration) { b.Spend(key(name), start.Add(after)) }
	rest := func(name string, after, want time.Duration) {
		t.Helper()
		if got := b.Rest(key(name), start.Add(after)); got != want {
			t.Errorf("after %s the rest is %s, want %s", after, got, want)
		}
	}
	rest("orders", 0, 0)
	spend("orders", 0)
	spend("orders", 0)
	rest("orders", 0, 0)
	spend("orders", 0)
	rest("orders", 0, time.Second)
	rest("orders", 400*time.Millisecond, 600*time.Millisecond)
	rest("billing", 0, 0)
	rest("orders", time.Second, 0)
	spend("orders", 1500*time.Millisecond)
	rest("orders", 1500*time.Millisecond, 500*time.Millisecond)
	// More than the most is not held against anybody.
	for range 100 {
		spend("orders", 1500*time.Millisecond)
	}
	rest("orders", 2*time.Second, 0)
	spend("orders", 2*time.Second)
	b.Reset(key("orders"))
	rest("orders", 2*time.Second, 0)
}

func TestWhatIsSpentLongAgoIsForgotten(t *testing.T) {
	t.Parallel()
	b := &Budget{Most: 3, Every: time.Second}
	for i := range 10_000 {
		b.Spend(key(strconv.Itoa(i)), start.Add(time.Duration(i)*time.Second))
	}
	if n := len(b.levels); n > 50 {
		t.Errorf("%d are remembered", n)
	}
}
