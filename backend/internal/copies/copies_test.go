package copies

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// hearing plays konnectors that speak with one backend process after the other.
type hearing struct {
	*testing.T
	*Clusters
	now   time.Time
	said  bool
	heard map[string]string
}

const (
	interval  = 5 * time.Second
	goneAfter = 15 * time.Second
)

func hear(t *testing.T) *hearing {
	h := &hearing{T: t, now: time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC), heard: map[string]string{}}
	h.restart()
	// It was not started a moment ago.
	h.now = h.now.Add(time.Hour)
	return h
}

func (h *hearing) restart() { h.Clusters = New(h.now) }

// sent is a heartbeat that was sent, and has not arrived.
func (h *hearing) sent(process string) Beat {
	return Beat{Process: process, Credential: "one", Heard: h.heard[process], GoneAfter: goneAfter}
}

// arrives has a heartbeat answered, and the answer lost.
func (h *hearing) arrives(b Beat) Answer { return h.Beat("k3x9", b, h.said, h.now) }

// beat is a whole exchange, after which time goes by.
func (h *hearing) beat(process string) Answer {
	a := h.arrives(h.sent(process))
	h.heard[process] = a.Heard
	h.now = h.now.Add(interval)
	return a
}

func (h *hearing) ends(process string) {
	b := h.sent(process)
	b.Ending = true
	h.arrives(b)
}

func (h *hearing) beats(processes ...string) (last Answer) {
	for _, p := range processes {
		last = h.beat(p)
	}
	return last
}

func TestL5_TwoLiveCopiesAreFoundAndProcessesThatFollowEachOtherAreNot(t *testing.T) {
	for name, c := range map[string]struct {
		play   func(*hearing)
		copied bool
	}{
		"one process":                   {func(h *hearing) { h.beats("a", "a", "a") }, false},
		"one after the other":           {func(h *hearing) { h.beats("a", "a", "b", "b", "b") }, false},
		"a copy":                        {func(h *hearing) { h.beats("a", "a", "b", "b", "a", "a") }, true},
		"a copy that speaks less often": {func(h *hearing) { h.beats("a", "a", "b", "a", "a", "a", "b", "a", "a") }, true},
		"a copy whose konnector is started again": {func(h *hearing) { h.beats("a", "b", "a", "c", "a", "c", "a", "c", "a") }, true},
		"a restart loop":         {func(h *hearing) { h.beats("a", "b", "c", "d", "e", "e", "f", "f", "f") }, false},
		"a restart loop of many": {func(h *hearing) { h.restarts("x", 3*maxProcesses); h.beats("a", "a", "a") }, false},
		"a late one of the process before": {func(h *hearing) {
			h.beat("a")
			late := h.sent("a")
			h.beats("b", "b")
			h.arrives(late)
			h.beats("b", "b", "b")
		}, false},
		"late ones of a process that is not known": {func(h *hearing) {
			h.beats("b", "b")
			h.arrives(h.sent("a"))
			h.arrives(h.sent("a"))
			h.beats("b", "b", "b")
		}, false},
		"a late one that was sent twice": {func(h *hearing) {
			h.beats("a", "a")
			late := h.sent("a")
			h.beat("b")
			h.arrives(late)
			h.beat("b")
			h.arrives(late)
			h.beats("b", "b")
		}, false},
		"a late answer, and the next one late, too": {func(h *hearing) {
			h.beat("a")
			late := h.sent("a")
			h.restart()
			h.beats("b", "b")
			h.arrives(late)
			h.beats("b", "b", "b")
		}, false},
		"stopped before it sent, and continued": {func(h *hearing) {
			h.beats("a", "a")
			late := h.sent("a")
			h.beats("b", "b", "b")
			// Its answer is heard, but the Lease is lost: nothing more is sent.
			h.heard["a"] = h.arrives(late).Heard
			h.beats("b", "b", "b")
		}, false},
		"the backend is started again among them": {func(h *hearing) { h.beats("a", "a"); h.restart(); h.beats("a", "b", "a", "b", "a", "b", "a", "b") }, true},
		"a backend that is started again all the time finds nothing, and nothing wrong": {func(h *hearing) {
			for range 5 {
				h.beats("a", "b", "b")
				h.restart()
			}
		}, false},
		"a copy that has ended while it was not found":  {func(h *hearing) { h.beats("a", "b", "b"); h.ends("b"); h.beats("a", "a", "a") }, false},
		"a copy that was found only after it has ended": {func(h *hearing) { h.beats("a", "a", "b", "b", "a"); late := h.sent("a"); h.ends("a"); h.arrives(late) }, false},
		"a copy that was not reached by the network": {func(h *hearing) {
			h.beats("b", "a")
			h.now = h.now.Add(10 * time.Minute)
			h.beats("b", "a", "b", "a", "b")
		}, true},
		"a clock that jumps": {func(h *hearing) {
			h.beats("a", "a")
			h.now = h.now.Add(-time.Hour)
			h.beats("a", "b")
			h.now = h.now.Add(24 * time.Hour)
			h.beats("b", "b")
		}, false},
		"a cluster that was copied when the backend was started again": {func(h *hearing) { h.said = true; h.beat("a") }, true},
		"a konnector that says nothing of itself that could be heard": {func(h *hearing) {
			h.heard["a"] = "1.2.3"
			h.beats("a", "b")
			h.heard["b"] = h.name + ".x"
			h.beats("b")
		}, false},
	} {
		h := hear(t)
		c.play(h)
		if got := h.Copied("k3x9", h.said); got != c.copied {
			t.Errorf("%s: copied %v", name, got)
		}
		if h.Copied("k4", false) {
			t.Errorf("%s: another cluster is copied", name)
		}
	}
}

// Whatever order heartbeats arrive in, however late and often: as long as a process speaks
// after another one only when that has ended, no two copies are live.
func TestL5_OneClusterIsNeverTakenForTwo(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		h := hear(t)
		process := 0
		var underway []Beat
		name := func() string { return string(rune('a' + process)) }
		r.Repeat(map[string]func(*rapid.T){
			"send":    func(*rapid.T) { underway = append(underway, h.sent(name())) },
			"follow":  func(*rapid.T) { process++ },
			"restart": func(*rapid.T) { h.restart() },
			"arrive": func(r *rapid.T) {
				if len(underway) == 0 {
					r.Skip()
				}
				b := rapid.SampledFrom(underway).Draw(r, "heartbeat")
				// Who has ended hears no answer.
				if a := h.arrives(b); b.Process == name() {
					h.heard[b.Process] = a.Heard
				}
			},
			"": func(r *rapid.T) {
				if h.Copied("k3x9", false) {
					r.Fatal("one cluster is taken for two")
				}
			},
		})
	})
}

func (h *hearing) restarts(name string, times int) {
	for range times {
		name += "x"
		h.beat(name)
	}
}

func TestL5_AProcessIsAloneWhenTheOneBeforeItHasEndedOrIsNotHeardOf(t *testing.T) {
	h := hear(t)
	want := func(what string, a Answer, alone bool) {
		t.Helper()
		if a.Alone != alone || a.Copied {
			t.Errorf("%s: %+v, want alone %v", what, a, alone)
		}
	}
	want("the first", h.beat("a"), true)
	want("a restart after a crash", h.beat("b"), false)
	want("a restart after a crash, a while later", h.beat("b"), false)
	want("a restart after a crash, long enough", h.beat("b"), true)
	h.ends("b")
	want("a restart after a clean end", h.beat("c"), true)
	want("one that has said that it ends", h.arrives(h.sent("b")), false)
	want("after a late one of a process that has ended", h.beat("c"), true)
	h.restart()
	want("the backend has just begun", h.beat("c"), false)
	h.beats("c", "c")
	want("the backend has heard for long enough", h.beat("c"), true)
	short := h.sent("d")
	short.GoneAfter = 0
	h.now = h.now.Add(time.Hour)
	want("one that is gone soon", h.arrives(short), true)
	h.now = h.now.Add(minGoneAfter)
	want("after one that is gone soon", h.beat("e"), true)
	long := h.sent("e")
	long.GoneAfter = 24 * time.Hour
	h.arrives(long)
	h.now = h.now.Add(maxGoneAfter - time.Second)
	want("after one that says it lives for ever", h.arrives(h.sent("f")), false)
	h.now = h.now.Add(time.Second)
	want("after one that says it lives for ever, a while later", h.beat("f"), true)
}

func TestL5_WhatIsSettledStartsFromScratch(t *testing.T) {
	h := hear(t)
	h.said = true
	late := h.sent("b")
	if a := h.beats("a", "b", "a", "b", "a", "b"); !a.Copied || a.Alone {
		t.Fatalf("two copies: %+v", a)
	}
	h.Settle("k3x9")
	if h.Copied("k3x9", true) {
		t.Error("what was said before counts")
	}
	winner := func() Answer {
		b := h.sent("a")
		b.Credential = "two"
		a := h.arrives(b)
		h.heard["a"] = a.Heard
		h.now = h.now.Add(interval)
		return a
	}
	if a := winner(); a.Copied || !a.Alone {
		t.Errorf("the copy that goes on: %+v", a)
	}
	// What the other one sent before its credential ended may still arrive.
	for range 3 {
		if a := h.arrives(late); a.Alone {
			t.Errorf("the other copy: %+v", a)
		}
		if a := winner(); a.Copied || !a.Alone {
			t.Errorf("the copy that goes on: %+v", a)
		}
	}
	// A copy of the one that goes on is one more.
	for range 4 {
		winner()
		b := h.sent("c")
		b.Credential = "two"
		h.heard["c"] = h.arrives(b).Heard
	}
	if !h.Copied("k3x9", false) {
		t.Error("a copy of the one that goes on is not found")
	}
}

func TestL5_FewProcessesOfAClusterAreRemembered(t *testing.T) {
	h := hear(t)
	for i := range 3 * maxProcesses {
		name := fmt.Sprint("x", i)
		h.beats(name, name)
	}
	all := h.all["k3x9"].processes
	if len(all) > maxProcesses {
		t.Errorf("%d processes are remembered", len(all))
	}
	for name, p := range all {
		for other := range p.after {
			if all[other] == nil {
				t.Errorf("%s remembers %s, which is forgotten", name, other)
			}
		}
	}
	h.now = h.now.Add(remembered + time.Minute)
	h.beat("a")
	if n := len(h.all["k3x9"].processes); n != 1 {
		t.Errorf("after an hour %d processes are remembered", n)
	}
}
