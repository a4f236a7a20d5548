package session_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gitbind.dev/gitbridge/breaker"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/session"
	"gitbind.dev/gitbridge/internal/statusbranch"
	"gitbind.dev/gitbridge/store"
)

// ordered are claims a, b, c … on main, applied and answered.
func ordered(w *world, r *run, n int) []string {
	w.Helper()
	var names []string
	files := map[string]string{}
	for i := range n {
		names = append(names, string(rune('a'+i)))
		files[path(names[i])] = "1"
	}
	w.commit("Order", files)
	r.follows()
	for _, name := range names {
		r.answer(path(name), contract.Applied)
	}
	return names
}

func (w *world) remove(names ...string) store.Hash {
	w.Helper()
	files := map[string]string{}
	for _, name := range names {
		files[path(name)] = ""
	}
	return w.commit("Remove", files)
}

// konnector removes claims as the app cluster's agent does, each with a commit.
func (w *world) konnector(at time.Time, names ...string) store.Hash {
	w.Helper()
	name, email := contract.ComponentIdentity(contract.Konnector, "k3x9d2abqw")
	w.remote.Committer, w.remote.Now = store.Signature{Name: name, Email: email}, func() time.Time { return at }
	defer func() { w.remote.Committer, w.remote.Now = store.Signature{Name: "alice"}, nil }()
	people := w.people
	defer func() { w.people = people }()
	w.people = w.remote.Branch("main")
	files, trailers := map[string]string{}, []store.Trailer{}
	for _, name := range names {
		name, approved := strings.CutSuffix(name, "!")
		files[path(name)] = ""
		key, _ := contract.ParsePath(path(name))
		trailers = append(trailers, store.Trailer{Key: contract.TrailerObject, Value: contract.ObjectTrailer{Key: key, UID: "u", Generation: 2}.String()})
		if approved {
			trailers = append(trailers, store.Trailer{Key: contract.TrailerApproved, Value: path(name)})
		}
	}
	return w.commit("claim: remove", files, trailers...)
}

func TestARemovalIsKnown(t *testing.T) {
	w := newWorld(t)
	r := w.startAndFollow()
	ordered(w, r, 9)
	w.remove("a")
	r.follows()
	r.wantRemoval("a", "", "")
	added := w.remote.Head("main")
	w.commit("Add what is not answered", map[string]string{path("x"): "1"})
	r.follows()
	seen := w.remote.Head("main")

	r.stop()
	w.remove("b", "x")
	again := w.startAndFollow()
	again.wantRemoval("b", "", "")
	again.wantRemoval("x", seen, "")
	again.wantRemoval("y", "", contract.NotRemoved)
	again.wantRemoval("z", "0123456789012345678901234567890123456789", contract.NotRemoved)
	_ = added

	w.commit("Put back", map[string]string{path("b"): "1"})
	again.follows()
	w.remove("b")
	again.follows()
	again.wantRemoval("b", "", "")
}

// An object that was applied and not answered says itself from which commit it
// is, which counts since main is followed from there.
func TestAnObjectTellsOfItsFile(t *testing.T) {
	w := newWorld(t)
	begin := w.remote.Head("main")
	r := w.startAndFollow()
	applied := w.commit("Add", map[string]string{path("a"): "1"})
	r.follows()
	w.remove("a")
	r.follows()
	r.Answered(path("a"), nil) // as if it had not been looked at
	got, err := r.Removals.Judge(t.Context(), path("a"), session.Seen{Applied: applied})
	if err != nil || got.Reason != "" {
		t.Errorf("%+v, %v", got, err)
	}
	r.stop()

	w.commit("Change", map[string]string{path("b"): "1"})
	w.mu.Lock()
	w.saved.Accepted, w.saved.Begun = w.remote.Head("main"), w.remote.Head("main")
	w.mu.Unlock()
	again := w.startAndFollow()
	for _, applied := range []store.Hash{applied, begin} {
		if got, err := again.Removals.Judge(t.Context(), path("a"), session.Seen{Applied: applied}); err != nil || got.Reason != contract.NotRemoved {
			t.Errorf("from before main is followed: %+v, %v", got, err)
		}
	}
}

func TestManyRemovalsAreHeldUntilAPersonApproves(t *testing.T) {
	for _, when := range []string{"while it looks", "while it is away", "and restarted afterwards"} {
		t.Run(when, func(t *testing.T) {
			w := newWorld(t)
			r := w.startAndFollow()
			names := ordered(w, r, 10)
			if when == "while it is away" {
				r.stop()
			}
			head := w.remove(names[:4]...)
			if when == "while it is away" {
				r = w.start()
			}
			r.follows()
			if when == "and restarted afterwards" {
				for _, name := range names[:4] {
					r.answerHeld(name)
				}
				r.stop()
				r = w.startAndFollow()
			}
			for _, name := range names[:4] {
				got := r.wantRemoval(name, "", contract.ManyRemovals)
				if !strings.Contains(got.Message, "with 3 others") || !strings.Contains(got.Message, "--removals "+string(head)) {
					t.Errorf("message %q", got.Message)
				}
			}
			// What it follows is known a moment before that the host can be reached.
			w.eventually("to hold is no trouble", r.Works)
			if c := r.Condition(); c.Reason != "RemovalsHeld" || c.Status != "False" || !strings.Contains(c.Message, "4 services") || !strings.Contains(c.Message, string(head)) {
				t.Errorf("condition %+v", c)
			}
			if !r.IsFollowing() {
				t.Error("what waits for a person is counted as a repository that is not followed")
			}
			// What was held does not count.
			w.commit("Later", map[string]string{path("e"): ""})
			r.follows()
			r.wantRemoval("e", "", "")

			w.queued()
			for _, wrong := range []store.Hash{w.remote.History("main")[2].Hash, "0123456789012345678901234567890123456789"} {
				if _, err := r.ApproveRemovals(t.Context(), wrong); err != nil && !strings.Contains(err.Error(), "no such commit") {
					t.Fatal(err)
				}
			}
			r.wantRemoval("a", "", contract.ManyRemovals)
			if _, err := r.ApproveRemovals(t.Context(), w.remote.Head("main")); err != nil {
				t.Fatal(err)
			}
			for _, name := range names[:4] {
				if got := r.wantRemoval(name, "", ""); !got.Approved {
					t.Error("not approved")
				}
				if done, err := r.ApproveRemovals(t.Context(), w.remote.Head("main")); done || err != nil {
					t.Errorf("done before %s is gone, %v", name, err)
				}
				r.Answered(path(name), &contract.Status{Result: contract.Gone})
			}
			if done, err := r.ApproveRemovals(t.Context(), w.remote.Head("main")); !done || err != nil {
				t.Errorf("not done: %v", err)
			}
			if got := w.queued(); len(got) != 4 {
				t.Errorf("queue %v", got)
			}
			if c := r.Condition(); c.Reason != "Following" {
				t.Errorf("condition %+v", c)
			}
		})
	}
}

// answerHeld does what the claim controller would for a removal that is held.
func (r *run) answerHeld(name string) {
	r.w.Helper()
	got, err := r.Removals.Judge(r.w.Context(), path(name), session.Seen{})
	if err != nil || got.Reason == "" {
		r.w.Fatalf("%+v, %v", got, err)
	}
	r.write(path(name), &contract.Status{Result: contract.Held, Reason: got.Reason, Message: got.Message, Answers: contract.Answers{Commit: got.Commit}, Object: "x/" + name})
}

func TestWhatPassedOutlivesTheProcess(t *testing.T) {
	w := newWorld(t)
	r := w.startAndFollow()
	ordered(w, r, 10)
	for _, name := range []string{"a", "b", "c"} {
		w.remove(name)
		r.follows()
		r.wantRemoval(name, "", "")
		if err := r.Checkpoints.Save(t.Context(), r.View().Generation); err != nil {
			t.Fatal(err)
		}
	}
	saved, writes := w.lastSaved()
	if len(saved.Removals) != 3 || saved.Removals[2].Path != path("c") || saved.Sequence == 0 {
		t.Errorf("saved %+v", saved)
	}
	if err := r.Checkpoints.Save(t.Context(), r.View().Generation); err != nil {
		t.Fatal(err)
	}
	if _, again := w.lastSaved(); again != writes {
		t.Error("what is written down is written again")
	}
	r.stop()
	w.remove("d")
	again := w.startAndFollow()
	again.wantRemoval("d", "", contract.ManyRemovals)
	// That which passed before and is not gone yet is not asked about again.
	again.wantRemoval("c", "", "")
}

func TestLimitsAreSettings(t *testing.T) {
	w := newWorld(t)
	r := w.startWith(session.Options{Limits: breaker.Limits{Most: 0, Window: time.Minute}})
	r.follows()
	ordered(w, r, 9)
	w.remove("a")
	r.follows()
	r.wantRemoval("a", "", contract.ManyRemovals)
	r.Removals.SetLimits(breaker.Limits{Most: 5, Window: time.Minute})
	w.remove("b", "c", "d", "e")
	r.follows()
	r.wantRemoval("e", "", "")
}

func TestAMoveIsHeldAndCountsForNothing(t *testing.T) {
	w := newWorld(t)
	r := w.startAndFollow()
	ordered(w, r, 10)
	for i, name := range []string{"a", "b", "c", "d"} {
		w.commit("Move", map[string]string{path(name): "", path("new-" + name): "1"})
		r.follows()
		got := r.wantRemoval(name, "", "")
		if diff := cmp.Diff([]string{path("new-" + name)}, got.CameWith); diff != "" {
			t.Errorf("%d: %s", i, diff)
		}
		if err := r.Checkpoints.Save(t.Context(), r.View().Generation); err != nil {
			t.Fatal(err)
		}
		held := r.Removals.HoldMoved(path(name), path("new-"+name))
		if err := r.Checkpoints.Save(t.Context(), r.View().Generation); err != nil {
			t.Fatal(err)
		}
		if saved, _ := w.lastSaved(); len(saved.Removals) > 0 {
			t.Errorf("what is held counts: %+v", saved.Removals)
		}
		if held.Reason != contract.Moved || !strings.Contains(held.Message, path("new-"+name)) {
			t.Errorf("%+v", held)
		}
		r.wantRemoval(name, "", contract.Moved)
	}
	if _, err := r.ApproveRemovals(t.Context(), w.remote.Head("main")); err != nil {
		t.Fatal(err)
	}
	if got := r.wantRemoval("a", "", ""); !got.Approved {
		t.Error("not approved")
	}
}

func TestAMoveWhileNoProcessLooks(t *testing.T) {
	w := newWorld(t)
	r := w.startAndFollow()
	ordered(w, r, 10)
	r.stop()
	w.commit("Move", map[string]string{path("a"): "", path("new"): "1"})
	r = w.startAndFollow()
	if got := r.wantRemoval("a", "", ""); !slices.Contains(got.CameWith, path("new")) {
		t.Errorf("came with %v", got.CameWith)
	}
}

// TestADeletedObjectIsNoMovedFile has somebody create an object like one that is
// deleted then: the konnector says so, and no file has moved.
func TestADeletedObjectIsNoMovedFile(t *testing.T) {
	w := newWorld(t)
	r := w.startAndFollow()
	ordered(w, r, 10)
	r.stop()
	w.commit("Order another", map[string]string{path("new"): "1"})
	w.konnector(time.Now(), "a")
	w.remove("b")
	r = w.startAndFollow()
	if got := r.wantRemoval("a", "", ""); len(got.CameWith) > 0 {
		t.Errorf("came with %v", got.CameWith)
	}
	if got := r.wantRemoval("b", "", ""); !slices.Contains(got.CameWith, path("new")) {
		t.Errorf("what a person removed came with %v", got.CameWith)
	}
}

// What no commit removed goes only when its very commit is named: an approval of
// other removals is none of it.
func TestWhatNoCommitRemovedIsApprovedByItsOwnCommit(t *testing.T) {
	w := newWorld(t)
	old := w.remote.Head("main")
	r := w.startAndFollow()
	ordered(w, r, 2)
	w.remote.ForceHead("main", old)
	r.wantHeld("MainRewritten")
	if err := r.Approve(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	r.follows()
	later := w.commit("Go on", map[string]string{path("x"): "1"})
	r.follows()
	if _, err := r.ApproveRemovals(t.Context(), later); err != nil {
		t.Fatal(err)
	}
	r.wantRemoval("a", "", contract.NotRemoved)
	r.stop()
	r = w.startAndFollow()
	r.wantRemoval("a", "", contract.NotRemoved)
	if _, err := r.ApproveRemovals(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	r.wantRemoval("a", "", "")
	r.wantRemoval("b", "", "")
}

// A removal that was held on a history that is no more is not approved with
// another one.
func TestAHeldRemovalOfAnotherHistory(t *testing.T) {
	w := newWorld(t)
	old := w.remote.Head("main")
	r := w.startAndFollow()
	names := ordered(w, r, 8)
	w.remove(names[:4]...)
	r.follows()
	for _, name := range names[:4] {
		r.answerHeld(name)
	}
	w.remote.ForceHead("main", old)
	r.wantHeld("MainRewritten")
	if err := r.Approve(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	r.follows()
	for _, name := range names {
		r.wantRemoval(name, "", contract.NotRemoved)
	}
	if _, err := r.ApproveRemovals(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	r.wantRemoval("a", "", "")
}

// A Git host that was restored from a backup has neither the order nor the removal of a claim,
// until it is given back both.
func TestARemovalIsKnownOnceMainHasItAgain(t *testing.T) {
	for by, remove := range map[string]func(*world) store.Hash{
		"the konnector": func(w *world) store.Hash { return w.konnector(time.Now(), "a") },
		"a person":      func(w *world) store.Hash { return w.remove("a") },
	} {
		for _, restarted := range []bool{false, true} {
			t.Run(fmt.Sprintf("by %s, restarted=%v", by, restarted), func(t *testing.T) {
				w := newWorld(t)
				old := w.remote.Head("main")
				applied := w.commit("Order", map[string]string{path("a"): "1"})
				gone := remove(w)
				w.remote.ForceHead("main", old)
				start := func() *run {
					last, _ := w.lastSaved()
					r := w.startWith(session.Options{Checkpoint: last, OnControlPlane: objects(map[string]store.Hash{path("a"): applied})})
					r.ObjectsKnown()
					r.follows()
					return r
				}
				r := start()
				judge := func(want contract.Reason) {
					t.Helper()
					if got, err := r.Removals.Judge(t.Context(), path("a"), session.Seen{Applied: applied}); err != nil || got.Reason != want {
						t.Errorf("%+v, %v, want %q", got, err, want)
					}
				}
				judge(contract.NotRemoved)
				r.answerHeld("a")
				if restarted {
					r.stop()
				}
				w.queued()
				w.remote.ForceHead("main", gone)
				if restarted {
					r = start()
				}
				r.follows()
				judge("")
				if queued := w.queued(); !slices.ContainsFunc(queued, func(p string) bool { return strings.TrimSuffix(p, " !") == path("a") }) {
					t.Errorf("it is not looked at: %v", queued)
				}
			})
		}
	}
}

func TestManyUnknownCommitsAreAskedForAtOnce(t *testing.T) {
	w := newWorld(t)
	r := w.startAndFollow()
	for i := range 20 {
		name := fmt.Sprintf("n%d", i)
		w.commit("Add", map[string]string{path(name): "1"})
		r.follows()
		r.answer(path(name), contract.Applied)
	}
	r.stop()
	files := map[string]string{}
	for i := range 20 {
		files[path(fmt.Sprintf("n%d", i))] = ""
	}
	w.commit("Remove", files)
	r = w.startAndFollow()
	for i := range 20 {
		r.wantRemoval(fmt.Sprintf("n%d", i), "", contract.ManyRemovals)
	}
}

// Between each two steps of a claim that comes and goes, the bridge is replaced: by
// then main may have been saved as accepted beyond all of them, as that is done before
// any service is deleted, and the path may have the tombstone of a life before.
func TestL17_ARemovalIsKnownAfterEachTakeover(t *testing.T) {
	for _, tombstone := range []bool{false, true} {
		for _, by := range []string{"a person", "the konnector"} {
			for _, replaced := range []string{"before it is applied", "before it is answered", "before its removal is seen", "before its removal is acted on"} {
				t.Run(fmt.Sprintf("removed by %s, replaced %s, tombstone %t", by, replaced, tombstone), func(t *testing.T) {
					w := newWorld(t)
					r := w.startAndFollow()
					ordered(w, r, 9)
					remove := func() store.Hash {
						if by == "a person" {
							return w.remove("x")
						}
						return w.konnector(time.Now(), "x")
					}
					if tombstone {
						w.commit("Add", map[string]string{path("x"): "0"})
						r.follows()
						r.answer(path("x"), contract.Applied)
						remove()
						r.follows()
						r.answer(path("x"), contract.Gone)
					}
					accepted := func() {
						if err := r.Checkpoints.Save(t.Context(), r.View().Generation); err != nil {
							t.Fatal(err)
						}
					}
					replace := func() {
						r.stop()
						r = w.startAndFollow()
					}
					applied := w.commit("Add", map[string]string{path("x"): "1"})
					r.follows()
					switch replaced {
					case "before it is applied":
						replace()
					case "before it is answered":
						accepted()
						replace()
					}
					if replaced == "before its removal is seen" {
						accepted()
						r.stop()
						remove()
						r = w.startAndFollow()
					} else {
						remove()
						r.follows()
					}
					if replaced == "before its removal is acted on" {
						accepted()
						replace()
					}
					got, err := r.Removals.Judge(t.Context(), path("x"), session.Seen{Applied: applied})
					if err != nil || got.IsHeld() {
						t.Errorf("%+v, %v", got, err)
					}
				})
			}
		}
	}
}

// What was removed while it had the tombstone of a life before counts like others.
func TestL17_RemovalsOfLaterLivesCount(t *testing.T) {
	w := newWorld(t)
	r := w.startAndFollow()
	names := ordered(w, r, 9)
	for _, name := range names[:5] {
		r.answer(path(name), contract.Gone)
	}
	r.stop()
	w.konnector(time.Now(), names[:5]...)
	r = w.startAndFollow()
	r.wantRemoval("a", "", contract.ManyRemovals)
}

// What was made again counts like others when it goes, also before any answer takes the
// place of the one that is about what was there before.
func TestL17_RemovalsOfLaterLivesCountWhileAnswersWait(t *testing.T) {
	for name, before := range map[string]func(r *run, path string){
		"a tombstone":             func(r *run, path string) { r.answer(path, contract.Gone) },
		"a loss":                  func(r *run, path string) { r.answer(path, contract.Lost) },
		"a file that was refused": func(r *run, path string) { r.refuse(path) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			r := w.startAndFollow()
			names := ordered(w, r, 9)
			again := map[string]string{}
			for _, name := range names[:5] {
				before(r, path(name))
				again[path(name)] = "2"
			}
			w.commit("Order again", again)
			r.follows()
			w.konnector(time.Now(), names[:5]...)
			r.follows()
			for _, name := range names[:5] {
				r.wantRemoval(name, "", contract.ManyRemovals)
			}
		})
	}
}

// What its answer says was never made, and is as it was answered, counts for nothing.
func TestARemovedFileThatWasRefusedDoesNotCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.startAndFollow()
	names := ordered(w, r, 9)
	for _, name := range names[:5] {
		r.refuse(path(name))
	}
	w.remove(names[:5]...)
	r.follows()
	for _, name := range names[:5] {
		r.wantRemoval(name, "", "")
	}
}

// refuse answers a path as one that was never applied.
func (r *run) refuse(path string) {
	r.w.Helper()
	v := r.View()
	e, _ := v.Main.Entry(path)
	r.write(path, &contract.Status{Result: contract.Invalid, Answers: contract.Answers{Commit: string(v.Main.Head()), Blob: string(e.Hash)}})
}

// What passed longer ago than the window was another removal: it passes no more, whether
// or not the process was replaced since.
func TestWhatPassedLongAgoIsAskedAboutAgain(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		ago  time.Duration
		want contract.Reason
	}{
		"within the window": {breaker.Default().Window / 2, ""},
		"long ago":          {breaker.Default().Window * 2, contract.ManyRemovals},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			r := w.startAndFollow()
			names := ordered(w, r, 5)
			r.stop()
			w.remove(names[:3]...)
			last, _ := w.lastSaved()
			for _, name := range names[:3] {
				last.Removals = append(last.Removals, breaker.Removal{Path: path(name), At: time.Now().Add(-tc.ago)})
			}
			r = w.startWith(session.Options{Checkpoint: last})
			r.follows()
			for _, name := range names[:3] {
				r.wantRemoval(name, "", tc.want)
			}
		})
	}
}

// What passed while the clock was ahead counts for as long as all else, and no longer.
func TestL14_WhatPassedUnderAClockThatWasAheadEnds(t *testing.T) {
	t.Parallel()
	for _, replaced := range []bool{false, true} {
		t.Run(fmt.Sprint("replaced ", replaced), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			var ahead atomic.Int64
			now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
			ahead.Store(int64(24 * time.Hour))
			r := w.startWith(session.Options{Now: now})
			r.follows()
			names := ordered(w, r, 9)
			w.remove(names[:3]...)
			r.follows()
			r.wantRemoval("a", "", "")
			if err := r.Checkpoints.Save(t.Context(), r.View().Generation); err != nil {
				t.Fatal(err)
			}
			ahead.Store(0)
			if replaced {
				r.stop()
				last, _ := w.lastSaved()
				r = w.startWith(session.Options{Now: now, Checkpoint: last})
				r.follows()
			}
			w.remove("d")
			r.follows()
			r.wantRemoval("d", "", contract.ManyRemovals)
			ahead.Store(int64(breaker.Default().Window))
			w.remove("e")
			r.follows()
			r.wantRemoval("e", "", "")
		})
	}
}

// ordersHere makes claims as the app cluster's agent does for new objects.
func (w *world) ordersHere(names ...string) {
	w.Helper()
	name, email := contract.ComponentIdentity(contract.Konnector, "k3x9d2abqw")
	people := w.people
	w.remote.Committer = store.Signature{Name: name, Email: email}
	w.people = w.remote.Branch("main")
	defer func() { w.remote.Committer, w.people = store.Signature{Name: "alice"}, people }()
	for _, name := range names {
		key, _ := contract.ParsePath(path(name))
		w.commit("claim: create", map[string]string{path(name): "1"},
			store.Trailer{Key: contract.TrailerObject, Value: contract.ObjectTrailer{Key: key, UID: "u", Generation: 1, Blob: "b"}.String()})
	}
}

// What somebody orders in the app cluster while a person removes a file is no move of it;
// what a person adds may be.
func TestL10_AnOrderOfTheAppClusterIsNoMove(t *testing.T) {
	t.Parallel()
	for _, away := range []bool{false, true} {
		t.Run(fmt.Sprint("while no process looks ", away), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			r := w.startAndFollow()
			ordered(w, r, 10)
			if away {
				r.stop()
			}
			r.main.looking.Lock()
			w.remove("a")
			w.ordersHere("x", "y")
			w.commit("Add", map[string]string{path("z"): "1"})
			r.main.looking.Unlock()
			if away {
				r = w.start()
			}
			r.follows()
			if diff := cmp.Diff([]string{path("z")}, r.wantRemoval("a", "", "").CameWith); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A delete in the app cluster is no move either, though the bridge ended between each two
// steps while another claim waits for its answer.
func TestL10_ADeleteIsNoMoveAfterATakeover(t *testing.T) {
	t.Parallel()
	for _, answered := range []bool{true, false} {
		t.Run(fmt.Sprint("answered ", answered), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			r := w.startAndFollow()
			ordered(w, r, 10)
			applied := w.commit("Order", map[string]string{path("p"): "1"})
			r.follows()
			if answered {
				r.answer(path("p"), contract.Applied)
			}
			w.commit("Order another", map[string]string{path("q"): "1"})
			w.konnector(time.Now(), "p")
			r.follows()
			if err := r.Checkpoints.Save(t.Context(), r.View().Generation); err != nil {
				t.Fatal(err)
			}
			r.stop()
			r = w.startAndFollow()
			got, err := r.Removals.Judge(t.Context(), path("p"), session.Seen{Applied: applied})
			if err != nil || got.IsHeld() || !got.ByKonnector || len(got.CameWith) > 0 {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

// TestL10_AFileThatMovesOnIsNoRemoval renames a file twice before the claim is looked at.
func TestL10_AFileThatMovesOnIsNoRemoval(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.startAndFollow()
	ordered(w, r, 10)
	w.commit("Move", map[string]string{path("a"): "", path("second"): "1"})
	r.follows()
	w.commit("Move on", map[string]string{path("second"): "", path("third"): "2"})
	r.follows()
	if got := r.wantRemoval("a", "", ""); !slices.Contains(got.CameWith, path("third")) {
		t.Errorf("came with %v", got.CameWith)
	}
	w.commit("Add", map[string]string{path("b"): "", path("other"): "1"})
	r.follows()
	if got := r.wantRemoval("a", "", ""); slices.Contains(got.CameWith, path("other")) {
		t.Errorf("came with %v", got.CameWith)
	}
}

// Claims were applied, and not answered before the bridge ended. One commit removes them all.
func TestManyRemovalsAreHeldThoughNothingWasAnswered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.startAndFollow()
	ordered(w, r, 10)
	names, at := unanswered(w, r)
	// What was answered is none of those that are judged together.
	applied := map[string]store.Hash{path("answered"): "x"}
	r.answer(path("answered"), contract.Applied)
	for _, name := range names {
		applied[path(name)] = at
	}
	r.stop()
	w.remove(names...)
	last, _ := w.lastSaved()
	r = w.startWith(session.Options{Checkpoint: last, OnControlPlane: objects(applied)})
	r.follows()
	var asking sync.WaitGroup
	for _, name := range names {
		asking.Go(func() {
			got, err := r.Removals.Judge(t.Context(), path(name), session.Seen{Applied: at})
			if err != nil || got.Reason != contract.ManyRemovals || got.Together != len(names) {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
		})
	}
	asking.Wait()
}

// unanswered orders four claims in one commit, which the session accepts and nobody answers.
func unanswered(w *world, r *run) (names []string, at store.Hash) {
	names = []string{"p", "q", "s", "u"}
	files := map[string]string{}
	for _, name := range names {
		files[path(name)] = "1"
	}
	at = w.commit("Order", files)
	r.follows()
	return names, at
}

// What is asked about at the same time is told as it is, while others add to it.
func TestRemovalsAreAskedForAtTheSameTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.startAndFollow()
	ordered(w, r, 10)
	names, applied := unanswered(w, r)
	w.konnector(time.Now(), names...)
	r.follows()
	if err := r.Checkpoints.Save(t.Context(), r.View().Generation); err != nil {
		t.Fatal(err)
	}
	r.stop()
	r = w.startAndFollow()
	var asking sync.WaitGroup
	for _, name := range names {
		asking.Go(func() {
			if _, err := r.Removals.Judge(t.Context(), path(name), session.Seen{Applied: applied}); err != nil {
				t.Error(err)
			}
		})
	}
	asking.Wait()
}

// Main was emptied, and a claim's answer goes on to be written with the state of its service:
// also while what a person approved begins, and over what was held for it.
func TestWhatIsAnsweredWhileMainBeginsAgainIsHeldAllTheSame(t *testing.T) {
	t.Parallel()
	for _, restarted := range []bool{false, true} {
		t.Run(fmt.Sprint("restarted ", restarted), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			var during func()
			r := w.startWith(session.Options{Save: func(ctx context.Context, c session.Checkpoint) error {
				if during != nil {
					during()
				}
				return w.save(ctx, c)
			}})
			r.follows()
			ordered(w, r, 1)
			w.commit("Remove all", map[string]string{path("a"): "", "README.md": ""})
			r.wantHeld("MainEmptied")
			lookedAt, mirrored := r.View(), w.status(path("a"))
			mirrored.Message = "mirrored"
			data, err := contract.EncodeStatus(mirrored)
			if err != nil {
				t.Fatal(err)
			}
			change := statusbranch.Change{Path: contract.StatusPath(path("a")), Data: data, Subject: "status: x"}
			during = func() {
				if restarted {
					for _, view := range []session.View{lookedAt, r.View()} {
						if err := r.Answer(t.Context(), view, change); !errors.Is(err, statusbranch.ErrOutdated) {
							t.Errorf("answered: %v", err)
						}
					}
				} else if err := r.Write(t.Context(), change); err != nil {
					t.Error(err)
				}
				during = nil
			}
			if err := r.Approve(t.Context(), w.remote.Head("main")); err != nil {
				t.Fatal(err)
			}
			r.follows()
			if restarted {
				if err := r.Answer(t.Context(), lookedAt, change); !errors.Is(err, statusbranch.ErrOutdated) {
					t.Errorf("answered: %v", err)
				}
				r.stop()
				w.commit("Go on", map[string]string{"README.md": "1"})
				r = w.startAndFollow()
			}
			r.wantRemoval("a", r.View().Main.Head(), contract.NotRemoved)
			if err := r.Answer(t.Context(), r.View(), change); err != nil {
				t.Error(err)
			}
		})
	}
}

// A begin that fails keeps no answer from being written that is decided on afterwards.
func TestAfterABeginThatFailedAnswersAreWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var full atomic.Bool
	r := w.startWith(session.Options{Save: func(ctx context.Context, c session.Checkpoint) error {
		if full.Load() {
			return errors.New("no answer")
		}
		return w.save(ctx, c)
	}})
	r.follows()
	ordered(w, r, 1)
	w.commit("Remove all", map[string]string{path("a"): "", "README.md": ""})
	r.wantHeld("MainEmptied")
	before := r.View()
	full.Store(true)
	if err := r.Approve(t.Context(), w.remote.Head("main")); err == nil {
		t.Fatal("no error")
	}
	change := statusbranch.Change{Path: contract.StatusPath(path("a")), Data: []byte("x"), Subject: "status: x"}
	if err := r.Answer(t.Context(), before, change); !errors.Is(err, statusbranch.ErrOutdated) {
		t.Errorf("what was decided on before: %v", err)
	}
	if err := r.Answer(t.Context(), r.View(), change); err != nil {
		t.Errorf("what was decided on since: %v", err)
	}
}
