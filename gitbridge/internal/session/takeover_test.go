package session_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gitbind.dev/gitbridge/breaker"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/session"
	"gitbind.dev/gitbridge/internal/statusbranch"
	"gitbind.dev/gitbridge/store"
)

func (r *run) save() {
	r.w.Helper()
	if err := r.Checkpoints.Save(r.w.Context(), r.View().Generation); err != nil {
		r.w.Fatal(err)
	}
}

// pull has people know of what others pushed: on what they know, a change may be none.
func (w *world) pull() {
	w.Helper()
	if _, err := w.people.Fetch(w.Context()); err != nil {
		w.Fatal(err)
	}
}

// putBack has people commit the files of claims that the konnector had removed.
func (w *world) putBack(names ...string) {
	w.Helper()
	w.pull()
	files := map[string]string{}
	for _, name := range names {
		files[path(name)] = "1"
	}
	w.commit("Put back", files)
}

// inOneFetch has a session take all that is pushed meanwhile at once.
func (r *run) inOneFetch(push func()) {
	r.w.Helper()
	r.main.looking.Lock()
	push()
	r.main.looking.Unlock()
	r.follows()
}

// takesOver is the next bridge.
func (r *run) takesOver() *run {
	r.w.Helper()
	r.stop()
	return r.w.startAndFollow()
}

// A delete is its user's, whatever others commit in the same fetch, unless it takes too long to
// find out what.
func TestADeleteBesideOthersCommitsIsNoMove(t *testing.T) {
	t.Parallel()
	for commits, isDelete := range map[int]bool{1: true, 2: true, 20: true, 40: false} {
		w := newWorld(t)
		r := w.startAndFollow()
		ordered(w, r, 10)
		r.inOneFetch(func() {
			w.konnector(time.Now(), "a!")
			w.pull()
			w.commit("Order", map[string]string{path("new"): "1"})
			for i := range commits - 1 {
				w.commit("Change", map[string]string{path("b"): fmt.Sprint(i)})
			}
		})
		got := r.wantRemoval("a", "", "")
		if came := slices.Contains(got.CameWith, path("new")); got.ByKonnector != isDelete || came == isDelete {
			t.Errorf("%d commits of others: %+v", commits, got)
		}
		r.stop()
	}
}

// All that others committed after a delete may have the file: it is asked for until it is found.
func TestAFileThatWasPutBackIsAskedForOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.startAndFollow()
	ordered(w, r, 10)
	r.inOneFetch(func() {
		w.konnector(time.Now(), "a!")
		w.putBack("a")
		for i := range 5 {
			w.commit("Change", map[string]string{path("b"): fmt.Sprint(i)})
		}
		w.commit("Rename", map[string]string{path("a"): "", path("new"): "2"})
	})
	if got := r.wantRemoval("a", "", ""); got.ByKonnector || r.main.ats.Load() != 1 {
		t.Errorf("after %d questions: %+v", r.main.ats.Load(), got)
	}
}

// A person renames a file that the konnector had removed before, and that was put back.
func TestL10_ARenameIsHeldThoughADeleteBeforeItWasApproved(t *testing.T) {
	t.Parallel()
	renameTo := func(w *world, to string) { w.commit("Rename", map[string]string{path("a"): "", to: "2"}) }
	rename := func(w *world) { renameTo(w, path("new")) }
	elsewhere := contract.Key{Binding: binding, Namespace: "team-b", Name: "a"}.Path()
	for name, renamed := range map[string]func(w *world, r *run) *run{
		"another claim of the delete has no answer": func(w *world, r *run) *run {
			w.konnector(time.Now(), "a!", "b!")
			r.follows()
			r.answer(path("a"), contract.Gone)
			w.putBack("a")
			r.follows()
			r.answer(path("a"), contract.Applied)
			r.save()
			r.stop()
			renameTo(w, elsewhere)
			return r.takesOver()
		},
		"the delete was held, and what was accepted is not saved": func(w *world, r *run) *run {
			r.save()
			saved, _ := w.lastSaved()
			w.konnector(time.Now(), "a", "b", "c", "d")
			r.follows()
			r.wantRemoval("a", "", contract.ManyRemovals)
			w.putBack("a", "b", "c", "d")
			r.follows()
			r.answer(path("a"), contract.Applied)
			r.stop()
			rename(w)
			next := w.startWith(session.Options{Checkpoint: saved})
			next.follows()
			return next
		},
		"the file was back when the delete was seen, as it was answered": func(w *world, r *run) *run {
			r.inOneFetch(func() {
				w.konnector(time.Now(), "a!")
				w.putBack("a")
			})
			r.Status.Done(path("a"), r.View().Generation)
			w.eventually("all of main is answered", func() bool {
				return statusbranch.Observed(r.Status.Snapshot()).Commit == string(w.remote.Head("main"))
			})
			r.save()
			r.stop()
			rename(w)
			return r.takesOver()
		},
		"the delete was accepted, and the file put back and renamed in one fetch": func(w *world, r *run) *run {
			w.konnector(time.Now(), "a!")
			r.follows()
			r.save()
			r.stop()
			w.putBack("a")
			rename(w)
			return r.takesOver()
		},
		"all came while no process looked": func(w *world, r *run) *run {
			r.stop()
			w.konnector(time.Now(), "a!")
			w.putBack("a")
			rename(w)
			return r.takesOver()
		},
		"to another namespace, while no process looked": func(w *world, r *run) *run {
			r.stop()
			w.konnector(time.Now(), "a!")
			w.putBack("a")
			renameTo(w, elsewhere)
			return r.takesOver()
		},
		"all came in one fetch": func(w *world, r *run) *run {
			r.inOneFetch(func() {
				w.konnector(time.Now(), "a!")
				w.putBack("a")
				rename(w)
			})
			return r
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			r := w.startAndFollow()
			ordered(w, r, 10)
			r = renamed(w, r)
			got := r.wantRemoval("a", "", "")
			if came := slices.Contains(got.CameWith, path("new")) || slices.Contains(got.CameWith, elsewhere); got.ByKonnector || got.Approved || !came {
				t.Errorf("%+v", got)
			}
		})
	}
}

// A name that was deleted is given to a file that moves: nothing but the tombstone tells of it.
func TestL10_AFileMovesToWhereOneWasDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.startAndFollow()
	ordered(w, r, 10)
	w.ordersHere("x")
	r.follows()
	r.answer(path("x"), contract.Applied)
	w.pull()
	w.remove("x")
	r.follows()
	r.answer(path("x"), contract.Gone)
	r.stop()
	w.commit("Rename", map[string]string{path("a"): "", path("x"): "2"})
	r = r.takesOver()
	if got := r.wantRemoval("a", "", ""); !slices.Contains(got.CameWith, path("x")) {
		t.Errorf("%+v", got)
	}
}

// More claims were deleted than the limits let pass unapproved, and the bridge ended before
// it answered. What a person ordered meanwhile is no place where they went.
func TestL10_ManyDeletesAreNoMovesAfterATakeover(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.startAndFollow()
	names := ordered(w, r, 20)
	w.commit("Order another", map[string]string{path("another"): "1"})
	for _, name := range names[:12] {
		w.konnector(time.Now(), name+"!")
	}
	r.follows()
	r.save()
	r = r.takesOver()
	for _, name := range names[:12] {
		if got := r.wantRemoval(name, "", ""); !got.ByKonnector || !got.Approved || len(got.CameWith) > 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// The host fails for a moment while a bridge that took over reads history: it asks again.
func TestL10_ADeleteIsNoMoveThoughTheHostFailsDuringATakeover(t *testing.T) {
	t.Parallel()
	for failing := range int64(5) {
		t.Run(fmt.Sprint("log ", failing+1), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			r := w.startAndFollow()
			ordered(w, r, 10)
			w.commit("Order another", map[string]string{path("another"): "1"})
			w.konnector(time.Now(), "a!")
			r.follows()
			r.save()
			r.stop()
			last, _ := w.lastSaved()
			main := &watched{Branch: w.remote.Branch("main"), failing: failing + 1}
			r = w.startOn(session.Options{Checkpoint: last}, main)
			r.follows()
			if got := r.wantRemoval("a", "", ""); !got.ByKonnector || !got.Approved || len(got.CameWith) > 0 {
				t.Errorf("%+v", got)
			}
		})
	}
}

// Each claim was answered as of another commit.
func TestATakeoverReadsHistoryAFewTimesHoweverManyClaimsWereRemoved(t *testing.T) {
	t.Parallel()
	for _, claims := range []int{20, 150} {
		for _, oldestFirst := range []bool{true, false} {
			t.Run(fmt.Sprintf("%d claims, the oldest first %t", claims, oldestFirst), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				r := w.startAndFollow()
				var approved []string
				for i := range claims {
					number := i
					if !oldestFirst {
						number = claims - i
					}
					name := fmt.Sprintf("n%04d", number)
					w.commit("Order", map[string]string{path(name): "1"})
					r.follows()
					r.answer(path(name), contract.Applied)
					approved = append(approved, name+"!")
				}
				w.konnector(time.Now(), approved...)
				r.follows()
				r.save()
				r = r.takesOver()
				if logs := r.main.logs.Load(); logs > 12 {
					t.Errorf("history was read %d times", logs)
				}
				for _, name := range approved {
					if got := r.wantRemoval(strings.TrimSuffix(name, "!"), "", ""); !got.ByKonnector || !got.Approved {
						t.Errorf("%s: %+v", name, got)
					}
				}
			})
		}
	}
}

// Deletes count one by one, though people pushed other things since.
func TestADeleteIsTheKonnectorsThoughPeoplePushedSince(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.startWith(session.Options{Limits: breaker.Default()})
	r.follows()
	ordered(w, r, 20)
	r.stop()
	day := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	for i, name := range []string{"a", "b", "c", "d", "e"} {
		w.konnector(day.Add(time.Duration(i)*time.Hour), name)
		w.commit("Change", map[string]string{path("f"): fmt.Sprint(i)})
	}
	r = r.takesOver()
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		if got := r.wantRemoval(name, "", ""); !got.ByKonnector || len(got.CameWith) > 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// late is a branch whose first answer comes late: others have pushed since.
type late struct {
	store.Branch
	first  sync.Once
	answer *store.Snapshot
}

func (b *late) FetchTip(ctx context.Context, tip store.Hash) (snap *store.Snapshot, err error) {
	b.first.Do(func() { snap = b.answer })
	if snap != nil {
		return snap, nil
	}
	return b.Branch.FetchTip(ctx, tip)
}

// The bridge before pushes status and saves its checkpoint while the next one looks at status
// for the first time. Where the branch was set back meanwhile, that is seen all the same.
func TestStatusIsNotTakenForOneThatWasSetBackWhileTheBridgeBeforePushes(t *testing.T) {
	t.Parallel()
	for _, isSetBack := range []bool{false, true} {
		for _, begun := range []bool{true, false} {
			t.Run(fmt.Sprintf("set back %t, begun %t", isSetBack, begun), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				status := w.remote.Branch("status")
				fetch := func() *store.Snapshot {
					snap, err := status.Fetch(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					return snap
				}
				answer := fetch() // of no branch at all
				r := w.startAndFollow()
				ordered(w, r, 2)
				if begun {
					answer = fetch()
				}
				r.answer(path("a"), contract.Failed)
				reached := statusbranch.Observed(r.Status.Snapshot()).Sequence
				r.save()
				r.stop()
				w.mu.Lock()
				w.saved.Sequence = reached
				last := w.saved
				w.mu.Unlock()
				if isSetBack {
					w.remote.ForceHead("status", w.remote.History("status")[1].Hash)
				}
				r = w.startWith(session.Options{Checkpoint: last, Status: &late{Branch: w.remote.Branch("status"), answer: answer}})
				r.follows()
				if got := r.StatusSetBack() > 0; got != isSetBack {
					t.Errorf("status was taken for one that was set back: %t", got)
				}
				r.answer(path("a"), contract.Denied)
				if got := statusbranch.Observed(r.Status.Snapshot()).Sequence; got <= reached || (got > reached+100) != isSetBack {
					t.Errorf("sequence %d after %d", got, reached)
				}
			})
		}
	}
}

// A push of the bridge before arrives at the host when the next one has looked at status already:
// nothing that anybody has seen is lost.
func TestAPushOfTheBridgeBeforeThatComesLateIsGoneOnFrom(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := w.startAndFollow()
	ordered(w, before, 2)
	before.save()
	last, _ := w.lastSaved()
	r := w.startWith(session.Options{Checkpoint: last})
	r.follows()
	before.answer(path("a"), contract.Failed)
	reached := statusbranch.Observed(before.Status.Snapshot()).Sequence
	before.stop()
	store.Tell(r.wakeStatus, "")
	w.eventually("status is gone on from", func() bool { return !r.Status.IsForeign() && r.Status.Sequence() == reached })
	r.answer(path("a"), contract.Denied)
	if got := statusbranch.Observed(r.Status.Snapshot()).Sequence; got <= reached || got > reached+100 || r.StatusSetBack() > 0 {
		t.Errorf("sequence %d after %d, set back %d times", got, reached, r.StatusSetBack())
	}
}
