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
	spend := func(name string, after time.Duration) { b.Spend(key(name), 1, start.Add(after)) }
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
	for _, most := range []int{3, 1 << 20} {
		b := &Budget{Most: most, Every: time.Second}
		for i := range 10_000 {
			b.Spend(key(strconv.Itoa(i)), 1, start.Add(time.Duration(i)*time.Second))
		}
		if n := len(b.levels); n > 50 {
			t.Errorf("of %d at once, %d are remembered", most, n)
		}
	}
}

// What is large passes once, and is waited for after that, however little was left.
func TestWhatIsLargeCountsWhole(t *testing.T) {
	t.Parallel()
	b, orders := &Budget{Most: 10, Every: time.Second}, key("orders")
	take := func(n int, after time.Duration, want bool) {
		t.Helper()
		if got := b.Take(orders, n, start.Add(after)); got != want {
			t.Errorf("%d after %s: %v", n, after, got)
		}
	}
	take(9, 0, true)
	take(20, 0, true)
	take(1, 0, false)
	if rest := b.Rest(orders, start); rest != 20*time.Second {
		t.Errorf("the rest is %s", rest)
	}
	take(1, 19*time.Second, false)
	take(1, 20*time.Second, true)
	b.Spend(orders, 20, start.Add(20*time.Second))
	b.Spend(orders, 20, start.Add(20*time.Second))
	if rest := b.Rest(orders, start.Add(20*time.Second)); rest != 20*time.Second {
		t.Errorf("of what was spent beyond the most, the rest is %s", rest)
	}
}

func TestWhatIsGivenBackWasNeverCounted(t *testing.T) {
	t.Parallel()
	b, orders := &Budget{Most: 10, Every: time.Second}, key("orders")
	if !b.Take(orders, 4, start) || !b.Take(orders, 8, start) || b.Rest(orders, start) == 0 {
		t.Error("it is not counted")
	}
	if b.GiveBack(orders, 8, start); b.Rest(orders, start) != 0 || b.levels[orders].spent != 4 {
		t.Errorf("%+v", b.levels)
	}
	if b.GiveBack(orders, 4, start.Add(time.Second)); len(b.levels) > 0 {
		t.Errorf("%+v", b.levels)
	}
}
