package measure

import (
	"testing"
	"time"

	"gitbind.dev/test/bench/figure"
)

func TestATraceTakesEachRequestAfterTheOneBefore(t *testing.T) {
	t.Parallel()
	zero := time.Unix(1_800_000_000, 0)
	at := func(ms int) time.Time { return zero.Add(time.Duration(ms) * time.Millisecond) }
	push := func(begins, ends int) request {
		return request{at: atHost, by: "konnector k3x9d2abqw", what: "git-receive-pack", begins: at(begins), ends: at(ends)}
	}
	apply := func(begins, ends int) request {
		return request{at: atControl, by: "system:serviceaccount:" + bridgeAccount, what: "patch", name: "orders", begins: at(begins), ends: at(ends)}
	}
	hops := []hop{up[0], up[2]}
	requests := []request{push(-2, -1), apply(1, 2), push(3, 4), apply(5, 9), push(12, 14)}
	var trace figure.Trace
	if !add(&trace, hops, requests, tracedChange{"orders", zero, at(20)}) {
		t.Fatal("not all requests were found")
	}
	want := [][2]float64{{3, 4}, {5, 9}, {20, 20}}
	for i, s := range trace.Steps {
		if got := [2]float64{s.Begins.At(0.5), s.Ends.At(0.5)}; got != want[i] {
			t.Errorf("%s: %v, want %v", s.What, got, want[i])
		}
	}
	if add(&trace, hops, requests, tracedChange{"invoices", zero, at(20)}) {
		t.Error("the requests of another claim were taken")
	}
	if add(&trace, hops, requests, tracedChange{"orders", zero, at(5)}) {
		t.Error("a request after the end was taken")
	}
}
