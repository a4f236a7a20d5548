package session_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/session"
	"gitbind.dev/gitbridge/internal/statusbranch"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/memstore"
)

func TestChangedPathsAreLookedAt(t *testing.T) {
	w := newWorld(t)
	w.commit("Add", map[string]string{path("a"): "1", path("b"): "1", "bindings/odd": "x", contract.RequestPath(binding): "x", "bindings/" + binding + "/inputs/team-a/x.yaml": "x", "docs/x": "x"})
	r := w.startAndFollow()
	if diff := cmp.Diff([]string{path("a") + " !", path("b") + " !", contract.RequestPath(binding) + " !", "bindings/odd !"}, w.queued()); diff != "" {
		t.Errorf("at first (-want +got): %s", diff)
	}
	w.commit("Change", map[string]string{path("a"): "2", "docs/x": "y"})
	r.follows()
	if diff := cmp.Diff([]string{path("a") + " !"}, w.queued()); diff != "" {
		t.Errorf("then (-want +got): %s", diff)
	}
}

// objects are what a control plane has, by any binding.
func objects(applied map[string]store.Hash) func(string) map[string]store.Hash {
	return func(of string) map[string]store.Hash {
		if of == "" || of == binding {
			return applied
		}
		return nil
	}
}

func TestAnObjectWithoutAFileIsLookedAtWithTheFirstHead(t *testing.T) {
	w := newWorld(t)
	w.commit("Add", map[string]string{path("a"): "1"})
	r := w.startWith(session.Options{OnControlPlane: objects(map[string]store.Hash{path("a"): "", path("orphan"): ""})})
	r.follows()
	r.answer(path("a"), contract.Applied)
	if diff := cmp.Diff([]string{path("a") + " !"}, w.queued()); diff != "" {
		t.Errorf("at first (-want +got): %s", diff)
	}
	wantAnswered := func(want bool) {
		t.Helper()
		if got := r.Status.IsAnswered(r.View().Generation); got != want {
			t.Errorf("main is answered: %t", got)
		}
	}
	wantAnswered(false)
	r.ObjectsKnown()
	if diff := cmp.Diff([]string{path("orphan")}, w.queued()); diff != "" {
		t.Errorf("when objects are known (-want +got): %s", diff)
	}
	wantAnswered(false)
	r.answer(path("orphan"), contract.Deleting)
	wantAnswered(true)
	w.commit("Change", map[string]string{path("a"): "2"})
	r.follows()
	if diff := cmp.Diff([]string{path("a") + " !"}, w.queued()); diff != "" {
		t.Errorf("then (-want +got): %s", diff)
	}
	r.EnqueueBinding("others.example.org")
	if got := w.queued(); len(got) > 0 {
		t.Errorf("with another binding: %q", got)
	}
	for what, enqueue := range map[string]func(){"all": r.EnqueueAll, "its binding": func() { r.EnqueueBinding(binding) }} {
		enqueue()
		if diff := cmp.Diff([]string{path("a"), path("orphan")}, w.queued()); diff != "" {
			t.Errorf("with %s (-want +got): %s", what, diff)
		}
	}
}

func TestAStartLooksAtNewsFirst(t *testing.T) {
	w := newWorld(t)
	answered := map[string]string{}
	for i := range 20 {
		answered[path(fmt.Sprint("old-", i))] = "1"
	}
	w.commit("Add", answered)
	r := w.startAndFollow()
	for path := range answered {
		r.answer(path, contract.Applied)
	}
	r.stop()
	w.queued()

	w.commit("Add by a pull request", map[string]string{path("new"): "1"})
	key, _ := contract.ParsePath(path("old-7"))
	w.commitAsKonnector("Edit", map[string]string{path("old-7"): "2"}, store.Trailer{Key: contract.TrailerObject, Value: contract.ObjectTrailer{Key: key, UID: "u", Generation: 2}.String()})
	w.startAndFollow()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) != 21 {
		t.Fatalf("%d paths are looked at, want all 21: %v", len(w.queue), w.queue)
	}
	first := slices.Sorted(slices.Values(w.queue[:2]))
	if diff := cmp.Diff([]string{path("new") + " !", path("old-7") + " !"}, first); diff != "" {
		t.Errorf("first of all (-want +got): %s", diff)
	}
	if i := slices.IndexFunc(w.queue[2:], func(s string) bool { return strings.HasSuffix(s, "!") }); i >= 0 {
		t.Errorf("%s is answered, and hurries", w.queue[2+i])
	}
}

func TestAClaimThatCameAndWentIsLookedAt(t *testing.T) {
	w := newWorld(t)
	r := w.startAndFollow()
	trailer := func(uid string) store.Trailer {
		key, _ := contract.ParsePath(path("a"))
		return store.Trailer{Key: contract.TrailerObject, Value: contract.ObjectTrailer{Key: key, UID: uid, Generation: 1}.String()}
	}
	w.commitAsKonnector("Add", map[string]string{path("a"): "1"}, trailer("u1"))
	w.commitAsKonnector("Remove", map[string]string{path("a"): ""}, trailer("u1"))
	w.commitAsKonnector("Add", map[string]string{path("a"): "1"}, trailer("u2"))
	w.commitAsKonnector("Remove", map[string]string{path("a"): ""}, trailer("u2"))
	r.follows()
	if diff := cmp.Diff([]string{path("a") + " !"}, w.queued()); diff != "" {
		t.Errorf("queue (-want +got): %s", diff)
	}
	if got := r.UID(path("a")); got != "u2" {
		t.Errorf("uid = %q, want the last one, u2", got)
	}
	r.Answered(path("a"), &contract.Status{UID: "u2"})
	if got := r.UID(path("a")); got != "" {
		t.Errorf("uid = %q after the answer", got)
	}
}

// A UID is what the Secrets of a claim are bound to: nobody else says it.
func TestAUIDCountsInTheKonnectorsCommitsOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.startAndFollow()
	trailer := func(uid string) store.Trailer {
		key, _ := contract.ParsePath(path("a"))
		return store.Trailer{Key: contract.TrailerObject, Value: contract.ObjectTrailer{Key: key, UID: uid, Generation: 1}.String()}
	}
	w.commit("Add", map[string]string{path("a"): "1"}, trailer("theirs"))
	r.follows()
	if got := r.UID(path("a")); got != "" {
		t.Errorf("alice says uid %q", got)
	}
	w.commitAsKonnector("Edit", map[string]string{path("a"): "2"}, trailer("u1"))
	w.commit("Edit", map[string]string{path("a"): "3"}, trailer("theirs"))
	r.follows()
	if got := r.UID(path("a")); got != "u1" {
		t.Errorf("uid %q, want the konnector's, u1", got)
	}
}

func TestAcceptWritesDownOnceWhatItIsAskedFor(t *testing.T) {
	w := newWorld(t)
	r := w.startAndFollow()
	saved, first := w.lastSaved()
	if saved.Accepted != w.remote.Head("main") || saved.Epoch == "" || first != 1 {
		t.Errorf("after the first contact: %+v in %d writes", saved, first)
	}
	for i := range 3 {
		w.commit("Change", map[string]string{path("a"): fmt.Sprint(i)})
		r.follows()
	}
	if _, writes := w.lastSaved(); writes != first {
		t.Errorf("%d writes, want none for commits that nothing depends on", writes-first)
	}
	for range 3 {
		if err := r.Checkpoints.Save(t.Context(), r.View().Generation); err != nil {
			t.Fatal(err)
		}
	}
	saved, writes := w.lastSaved()
	if writes != first+1 || saved.Accepted != w.remote.Head("main") {
		t.Errorf("%+v after %d writes, want main's head after one", saved, writes-first)
	}
	w.commit("Change", map[string]string{path("a"): "last"})
	r.follows()
	r.stop()
	if saved, _ := w.lastSaved(); saved.Accepted != w.remote.Head("main") {
		t.Error("what was followed last is not written down at the end")
	}
}

func TestAMainThatDoesNotDescendIsNotFollowed(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		t.Run(fmt.Sprintf("restarted=%v", restarted), func(t *testing.T) {
			w := newWorld(t)
			old := w.remote.Head("main")
			w.commit("Add", map[string]string{path("a"): "1", path("b"): "1"})
			r := w.startAndFollow()
			r.answer(path("a"), contract.Applied)
			r.answer(path("b"), contract.Applied)
			accepted := w.remote.Head("main")
			if restarted {
				r.stop()
			}
			w.remote.ForceHead("main", old)
			if restarted {
				r = w.start()
			}
			w.queued()
			r.wantHeld("MainRewritten")
			if v := r.View(); v.Main.Head() == old {
				t.Error("the rewritten main counts")
			}
			if !strings.Contains(r.Condition().Message, string(accepted)) || !strings.Contains(r.Condition().Message, "approve --main "+string(old)) {
				t.Errorf("message = %q", r.Condition().Message)
			}

			t.Run("until it is repaired", func(t *testing.T) {
				w.remote.ForceHead("main", accepted)
				r.follows()
			})
			w.remote.ForceHead("main", old)
			r.wantHeld("MainRewritten")
			t.Run("or a person approves", func(t *testing.T) {
				if err := r.Approve(t.Context(), old); err != nil {
					t.Fatal(err)
				}
				if v := r.View(); v.Held || v.Main.Head() != old {
					t.Errorf("view = %+v", v)
				}
				for _, name := range []string{"a", "b"} {
					if s := w.status(path(name)); s.Result != contract.Held || s.Answers.Blob != "" || s.Reason != contract.NotRemoved {
						t.Errorf("%s: %+v, want it held", name, s)
					}
					r.wantRemoval(name, "", contract.NotRemoved)
				}
				if saved, _ := w.lastSaved(); saved.Accepted != old {
					t.Errorf("saved %s", saved.Accepted)
				}
				for commit, want := range map[store.Hash]bool{old: true, accepted: false} {
					if used, err := r.IsApproved(t.Context(), commit); used != want || err != nil {
						t.Errorf("approval of %s used: %v, %v", commit.Short(), used, err)
					}
				}
			})
		})
	}
}

func TestTheFirstContactDeletesNothing(t *testing.T) {
	w := newWorld(t)
	w.commit("Add", map[string]string{path("a"): "1", path("b"): "1", path("c"): "1"})
	r := w.startAndFollow()
	r.answer(path("a"), contract.Applied)
	r.answer(path("b"), contract.Applied)
	w.commit("Remove", map[string]string{path("c"): ""})
	r.follows()
	r.answer(path("c"), contract.Deleting)
	r.stop()

	w.commit("Remove", map[string]string{path("a"): ""})
	w.mu.Lock()
	w.saved = session.Checkpoint{} // the ClusterBinding was made again
	w.mu.Unlock()
	w.startAndFollow()
	if s := w.status(path("a")); s.Result != contract.Held || s.Answers.Blob != "" {
		t.Errorf("a: %+v, want it held", s)
	}
	if s := w.status(path("b")); s.Result != contract.Applied {
		t.Errorf("b: %+v", s)
	}
	if s := w.status(path("c")); s.Result != contract.Deleting {
		t.Errorf("c: %+v: a delete that began goes on", s)
	}
	saved, _ := w.lastSaved()
	if saved.Accepted != w.remote.Head("main") {
		t.Error("the begin is not written down")
	}
}

func TestTheFirstContactUnbindsNothing(t *testing.T) {
	w := newWorld(t)
	request := contract.RequestPath(binding)
	answered := w.commit("Ask", map[string]string{request: "1", path("a"): "1"})
	r := w.startAndFollow()
	r.answer(request, contract.Applied)
	w.commit("Unbind", map[string]string{request: ""})
	r.follows()
	if yes, err := r.Removals.WasRequestRemoved(t.Context(), answered); !yes || err != nil {
		t.Errorf("a removal that was followed: %v, %v", yes, err)
	}
	if yes, err := r.Removals.WasRequestRemoved(t.Context(), "0123456789012345678901234567890123456789"); yes || err != nil {
		t.Errorf("one of another history: %v, %v", yes, err)
	}
	r.stop()
	w.mu.Lock()
	w.saved = session.Checkpoint{} // the ClusterBinding was made again
	w.mu.Unlock()
	w.startAndFollow()
	if s := w.status(request); s.Result != contract.Held || s.Reason != contract.NotRemoved || s.Answers.Blob != "" || s.Metadata.Name != binding {
		t.Errorf("%+v, want it held", s)
	}
}

func TestForeignObjectsAreKnownWhenAllOfMainIs(t *testing.T) {
	w := newWorld(t)
	w.commit("Add", map[string]string{path("a"): "1", path("b"): "1"})
	r := w.startAndFollow()
	want := func(known bool, names ...string) {
		t.Helper()
		paths, got := r.Foreign.Paths()
		if diff := cmp.Diff(names, paths, cmpopts.EquateEmpty()); diff != "" || got != known {
			t.Errorf("known %v, want %v (-want +got): %s", got, known, diff)
		}
	}
	answer := func(name string, s *contract.Status) {
		t.Helper()
		r.write(path(name), s)
		r.Answered(path(name), s)
	}
	applied := &contract.Status{Result: contract.Applied, Answers: contract.Answers{Blob: "b", Commit: "c"}}
	answer("a", &contract.Status{Result: contract.Held, Reason: contract.Foreign, Answers: applied.Answers})
	want(false, path("a"))
	answer("b", applied)
	want(true, path("a"))
	answer("a", applied)
	want(true)
}

func TestAnEmptiedMainIsNotFollowed(t *testing.T) {
	w := newWorld(t)
	w.commit("Add", map[string]string{path("a"): "1"})
	r := w.startAndFollow()
	w.commit("Remove all", map[string]string{path("a"): "", "README.md": ""})
	r.wantHeld("MainEmptied")
	w.remote.ForceHead("main", "")
	r.wantHeld("MainMissing")
}

func TestALostStatusBranchIsSaid(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		t.Run(fmt.Sprintf("restarted=%v", restarted), func(t *testing.T) {
			w := newWorld(t)
			w.commit("Add", map[string]string{path("a"): "1"})
			r := w.startAndFollow()
			r.answer(path("a"), contract.Applied)
			if restarted {
				r.stop()
			}
			w.remote.ForceHead("status", "")
			if restarted {
				r = w.start()
			} else if err := r.Write(t.Context(), statusbranch.Change{Path: "x", Data: []byte("x"), Subject: "x"}); !errors.Is(err, statusbranch.ErrForeign) {
				t.Errorf("write on the lost branch: %v", err)
			}
			r.wantHeld("StatusLost")
			before, _ := w.lastSaved()
			if err := r.Approve(t.Context(), w.remote.Head("main")); err != nil {
				t.Fatal(err)
			}
			r.follows()
			if after, _ := w.lastSaved(); after.Epoch == before.Epoch || after.Epoch == "" {
				t.Errorf("epoch %q after %q", after.Epoch, before.Epoch)
			}
			if o := statusbranch.Observed(w.statusTree()); o.Commit != "" {
				t.Errorf("it says that main is answered: %+v", o)
			}
		})
	}
}

// Where a host is being restored, much fails that works a moment later.
func TestALostStatusBranchThatIsGivenBackIsFollowedOnceMainCanBeCompared(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.commit("Add", map[string]string{path("a"): "1"})
	main := &limited{Branch: w.remote.Branch("main")}
	r := w.startOn(session.Options{}, main)
	r.follows()
	r.answer(path("a"), contract.Applied)
	r.stop()
	backup := w.remote.Head("status")
	head := w.commit("Change", map[string]string{path("a"): "2"})
	w.remote.ForceHead("status", "")
	last, _ := w.lastSaved()
	r = w.startOn(session.Options{Checkpoint: last}, main)
	r.wantHeld("StatusLost")
	main.logs.Store(&store.LimitError{Branch: "main", Head: head, Passing: true, Reason: "busy"})
	w.remote.ForceHead("status", backup)
	w.eventually("it is asked what leads to main", func() bool {
		store.Tell(r.wakeStatus, "")
		return main.asked.Load() > 0
	})
	main.logs.Store(nil)
	r.follows()
}

// A repository that was lost is made again, and then given what a mirror has. The bridge may look
// in between, and see main before status.
func TestALostStatusBranchThatIsGivenBackIsFollowed(t *testing.T) {
	t.Parallel()
	for _, isOld := range []bool{false, true} {
		for _, restarted := range []bool{false, true} {
			t.Run(fmt.Sprintf("isOld=%v restarted=%v", isOld, restarted), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				empty := w.remote.Head("main")
				head := w.commit("Add", map[string]string{path("a"): "1", path("b"): "1"})
				r := w.startAndFollow()
				r.answer(path("a"), contract.Applied)
				backup := w.remote.Head("status")
				r.answer(path("b"), contract.Applied)
				before := statusbranch.Observed(w.statusTree())
				if !isOld {
					backup = w.remote.Head("status")
				}
				if restarted {
					r.stop()
				}
				w.remote.ForceHead("status", "")
				if restarted {
					r = w.start()
				}
				w.eventually("status is lost", func() bool {
					store.Tell(r.wakeStatus, "")
					store.Tell(r.wakeMain, "")
					return r.View().Held
				})
				w.remote.ForceHead("main", empty)
				r.wantHeld("MainRewritten")
				w.remote.ForceHead("main", head)
				r.wantHeld("StatusLost")
				w.queued()
				w.remote.ForceHead("status", backup)
				w.eventually("main is followed", func() bool {
					store.Tell(r.wakeStatus, "")
					return r.View().Main.Head() == head && !r.View().Held
				})
				r.answer(path("a"), contract.Applied)
				r.answer(path("b"), contract.Applied)
				w.eventually("main is answered again, in the same epoch", func() bool {
					now := statusbranch.Observed(w.statusTree())
					return now.Commit == string(head) && now.Epoch == before.Epoch && now.Sequence > before.Sequence
				})
			})
		}
	}
}

func TestAStatusBranchFromABackupIsAnsweredAgain(t *testing.T) {
	w := newWorld(t)
	w.commit("Add", map[string]string{path("a"): "1", path("b"): "1"})
	r := w.startAndFollow()
	r.answer(path("a"), contract.Applied)
	backup := w.remote.Head("status")
	r.answer(path("b"), contract.Applied)
	w.queued()
	store.Tell(r.wakeStatus, "")
	w.remote.ForceHead("status", backup)
	store.Tell(r.wakeStatus, "")
	seen := map[string]bool{}
	w.eventually("all is looked at", func() bool {
		store.Tell(r.wakeStatus, "")
		for _, path := range w.queued() { // one after another
			seen[path] = true
		}
		return len(seen) == 2 && seen[path("a")] && seen[path("b")]
	})
	if r.View().Held {
		t.Error("held")
	}
	r.answer(path("a"), contract.Applied)
	r.answer(path("b"), contract.Applied)
	if o := statusbranch.Observed(r.Status.Snapshot()); o.Commit != string(w.remote.Head("main")) {
		t.Errorf("observed = %+v", o)
	}
}

// What a konnector asks for is gone where all of main is answered and nothing is said of it.
func TestL3_AStatusThatWasSetBackAnswersMainOnceAllIsAnsweredAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	head := w.commit("Add", map[string]string{path("a"): "1", path("b"): "1"})
	r := w.startWith(session.Options{OnControlPlane: objects(map[string]store.Hash{path("c"): ""})})
	r.follows()
	r.ObjectsKnown()
	r.answer(path("a"), contract.Applied)
	backup := w.remote.Head("status")
	before := r.View()
	r.answer(path("b"), contract.Applied)
	r.answer(path("c"), contract.Held)
	w.observes(head)
	w.queued()
	w.remote.ForceHead("status", backup)
	seen := map[string]bool{}
	w.eventually("all is looked at", func() bool {
		store.Tell(r.wakeStatus, "")
		for _, path := range w.queued() {
			seen[path] = true
		}
		return seen[path("a")] && seen[path("b")] && seen[path("c")]
	})
	r.Status.Done(path("b"), before.Generation)
	for _, name := range []string{"a", "b", "c"} {
		if o := statusbranch.Observed(w.statusTree()); o.Commit == string(head) {
			t.Fatalf("main is answered before %s is: %+v", name, o)
		}
		r.answer(path(name), contract.Failed)
	}
	w.observes(head)
}

// Where main and status were set back together, and main is repaired, what status
// lost is answered again. The konnector takes status for an older one only until it is looked at.
func TestWhatStatusLostIsAnsweredWhenMainIsBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	begin := w.remote.Head("main")
	w.commit("Add", map[string]string{path("a"): "1"})
	r := w.startAndFollow()
	backup := w.remote.Head("status")
	r.answer(path("a"), contract.Applied)
	seen := statusbranch.Observed(w.statusTree()).Sequence
	good := w.remote.Head("main")
	w.remote.ForceHead("main", begin)
	r.wantHeld("MainRewritten")
	w.queued()
	w.remote.ForceHead("status", backup)
	w.eventually("status is looked at", func() bool {
		store.Tell(r.wakeStatus, "")
		return slices.Equal(w.queued(), []string{path("a")})
	})
	w.eventually("the sequence goes beyond what was seen", func() bool {
		return statusbranch.Observed(w.statusTree()).Sequence > seen
	})
	if o := statusbranch.Observed(w.statusTree()); o.Commit == string(good) || w.status(path("a")) != nil {
		t.Errorf("main is answered while it is held: %+v", o)
	}
	w.remote.ForceHead("main", good)
	r.follows()
	if got := w.queued(); !slices.Contains(got, path("a")+" !") {
		t.Errorf("queue %v", got)
	}
}

// The konnector takes a lower sequence for an older status.
func TestASequenceThatWasReachedIsNotReachedAgain(t *testing.T) {
	w := newWorld(t)
	w.commit("Add", map[string]string{path("a"): "1"})
	r := w.startAndFollow()
	r.answer(path("a"), contract.Applied)
	r.stop()
	w.mu.Lock()
	w.saved.Sequence = 1000 // and then status was set back
	w.mu.Unlock()
	r = w.startAndFollow()
	r.answer(path("a"), contract.Failed)
	if o := statusbranch.Observed(r.Status.Snapshot()); o.Sequence <= 1000 || o.Epoch != w.saved.Epoch {
		t.Errorf("observed %+v", o)
	}
}

// A Git host that was restored is given back what it lost, and the process that wrote in
// between has ended: what it gave out, the konnector has seen.
func TestASequenceIsNotReachedAgainWhenStatusIsGivenBack(t *testing.T) {
	for name, isRunning := range map[string]bool{"a process finds status set back": false, "status is set back under a process": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.commit("Add", map[string]string{path("a"): "1", path("b"): "1"})
			r := w.startAndFollow()
			r.answer(path("a"), contract.Applied)
			backup := w.remote.Head("status")
			r.answer(path("b"), contract.Applied)
			lost := w.remote.Head("status")
			if isRunning {
				store.Tell(r.wakeStatus, "")
				w.queued()
				w.remote.ForceHead("status", backup)
				w.eventually("it is seen", func() bool {
					store.Tell(r.wakeStatus, "")
					return slices.Contains(w.queued(), path("b"))
				})
			} else {
				r.stop()
				w.mu.Lock()
				w.saved.Sequence = statusbranch.Observed(r.Status.Snapshot()).Sequence
				w.mu.Unlock()
				w.remote.ForceHead("status", backup)
				r = w.startAndFollow()
			}
			r.answer(path("b"), contract.Applied)
			said := func() int64 { return statusbranch.Observed(r.Status.Snapshot()).Sequence }
			reached := said()
			// It is killed, and saves nothing any more.
			last, _ := w.lastSaved()
			r.stop()
			w.remote.ForceHead("status", lost)
			r = w.startWith(session.Options{Checkpoint: last})
			r.follows()
			r.answer(path("b"), contract.Failed)
			if got := said(); got <= reached {
				t.Errorf("sequence %d after %d", got, reached)
			}
		})
	}
}

func TestANewClusterBindingOnAnOldStatusWaits(t *testing.T) {
	w := newWorld(t)
	w.commit("Add", map[string]string{path("a"): "1"})
	r := w.startAndFollow()
	if r.Stops.IsUnchecked() || r.Stops.Why() != nil {
		t.Error("a new repository is nothing to wait for")
	}
	r.answer(path("a"), contract.Applied)
	r.stop()
	w.mu.Lock()
	w.saved = session.Checkpoint{}
	w.mu.Unlock()
	r = w.startAndFollow()
	if hold := r.Stops.Why(); hold == nil || hold.Reason != "Checking" || !r.Stops.IsUnchecked() || r.Condition().Status != "False" || r.IsFollowing() {
		t.Errorf("stalled %+v, condition %+v", hold, r.Condition())
	}
	w.queued()
	r.Stops.Set(nil)
	if got := w.queued(); !slices.Equal(got, []string{path("a")}) || r.Stops.IsUnchecked() || r.Stops.Why() != nil {
		t.Errorf("queue %v", got)
	}
}

func TestASuspendedSessionGoesOnWithEverything(t *testing.T) {
	w := newWorld(t)
	w.commit("Add", map[string]string{path("a"): "1"})
	r := w.startAndFollow()
	r.Stops.Suspend(&session.Stop{Reason: "Suspended"})
	r.Stops.Suspend(&session.Stop{Reason: "Suspended"})
	w.queued()
	if hold := r.Stops.Why(); hold == nil || hold.Reason != "Suspended" || r.Stops.IsSet() {
		t.Errorf("stalled %+v", hold)
	}
	r.Stops.Suspend(nil)
	if got := w.queued(); !slices.Equal(got, []string{path("a")}) || r.Stops.Why() != nil {
		t.Errorf("queue %v", got)
	}
}

func TestL5_ACopiedClusterIsNotFollowedAndSaysSo(t *testing.T) {
	b := &v1alpha1.ClusterBinding{}
	if why := session.SuspendedBy(b); why != nil {
		t.Errorf("suspended: %+v", why)
	}
	b.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionCopied, Status: metav1.ConditionTrue}}
	if why := session.SuspendedBy(b); why == nil || why.Reason != "Copied" || !strings.Contains(why.Message, "owner") {
		t.Errorf("copied: %+v", why)
	}
	b.Spec.Suspended = true
	if why := session.SuspendedBy(b); why == nil || why.Reason != "Suspended" {
		t.Errorf("suspended and copied: %+v", why)
	}
}

func TestConditionsSayWhatIsWrong(t *testing.T) {
	for _, test := range []struct {
		err    error
		reason string
	}{
		{fmt.Errorf("fetch: %w", store.ErrUnauthorized), "CredentialRefused"},
		{fmt.Errorf("fetch: %w", store.ErrRepositoryNotFound), "RepositoryNotFound"},
		{fmt.Errorf("get credential: %w", session.ErrNoCredential), "SecretMissing"},
		{errors.New("read tcp 127.0.0.1:4711->127.0.0.1:8080: connection reset"), "RepositoryUnreachable"},
	} {
		t.Run(test.reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				var mu sync.Mutex
				fault := test.err
				w.remote.SetFault(func(memstore.Call) error {
					mu.Lock()
					defer mu.Unlock()
					return fault
				})
				r := w.start()
				w.eventually(test.reason, func() bool { return r.Condition().Reason == test.reason })
				if c := r.Condition(); c.Status != "False" || strings.Contains(c.Message, "4711") {
					t.Errorf("condition = %+v", c)
				}
				mu.Lock()
				fault = nil
				mu.Unlock()
				r.follows()
				w.eventually("it says that it works", func() bool { return r.Condition().Reason == "Following" })
			})
		})
	}
}

func TestTroubleIsLoggedWhenItBeginsChangesAndEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var mu sync.Mutex
		var lines []string
		logs := func(what string, want ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			slices.Sort(lines)
			if !slices.Equal(lines, want) {
				t.Errorf("%s: logged %q, want %q", what, lines, want)
			}
			lines = nil
		}
		r := w.startWith(session.Options{Log: funcr.New(func(_, line string) {
			mu.Lock()
			defer mu.Unlock()
			lines = append(lines, line)
		}, funcr.Options{})})
		r.follows()
		time.Sleep(time.Minute) // until status says what was seen of main
		logs("all is well")

		var tries atomic.Int64
		w.remote.SetFault(func(memstore.Call) error {
			return fmt.Errorf("read tcp 127.0.0.1:4711->127.0.0.1:%d: %w", tries.Add(1), syscall.ECONNRESET)
		})
		time.Sleep(20 * time.Minute)
		mu.Lock()
		for i := range lines {
			lines[i] = regexp.MustCompile(`:\d+: conn`).ReplaceAllString(lines[i], ":0: conn")
		}
		mu.Unlock()
		logs("out of reach",
			`"level"=0 "msg"="repository trouble" "part"="main" "error"="fetch: read tcp 127.0.0.1:4711->127.0.0.1:0: connection reset by peer"`,
			`"level"=0 "msg"="repository trouble" "part"="status" "error"="fetch: read tcp 127.0.0.1:4711->127.0.0.1:0: connection reset by peer"`)
		if tries.Load() < 10 {
			t.Errorf("it was tried %d times", tries.Load())
		}
		w.remote.SetFault(func(memstore.Call) error { return store.ErrUnauthorized })
		time.Sleep(time.Minute)
		logs("refused",
			`"level"=0 "msg"="repository trouble" "part"="main" "error"="fetch: credential refused"`,
			`"level"=0 "msg"="repository trouble" "part"="status" "error"="fetch: credential refused"`)
		w.remote.SetFault(nil)
		time.Sleep(time.Minute)
		logs("over", `"level"=0 "msg"="repository works again" "part"="main"`, `"level"=0 "msg"="repository works again" "part"="status"`)

		for range 2 {
			r.Listening(errors.New("the backend closed the event stream"))
		}
		time.Sleep(time.Second)
		r.Listening(nil)
		logs("of events that are back soon")
		r.Listening(errors.New("the backend closed the event stream"))
		time.Sleep(5 * time.Second)
		r.Listening(nil)
		logs("of events", `"level"=0 "msg"="repository trouble" "part"="events" "error"="the backend closed the event stream"`, `"level"=0 "msg"="repository works again" "part"="events"`)
	})
}

// A repository that was replaced lost its status with it; what was answered
// before is held, not forgotten.
func TestAReplacedRepositoryLetsNothingGo(t *testing.T) {
	w := newWorld(t)
	begin := w.remote.Head("main")
	w.commit("Add", map[string]string{path("a"): "1", path("b"): "1"})
	r := w.startAndFollow()
	r.answer(path("a"), contract.Applied)
	r.answer(path("b"), contract.Applied)
	before, _ := w.lastSaved()
	w.remote.ForceHead("main", begin)
	w.remote.ForceHead("status", "")
	r.wantHeld("MainRewritten")
	if err := r.Approve(t.Context(), begin); err != nil {
		t.Fatal(err)
	}
	r.follows()
	for _, name := range []string{"a", "b"} {
		if s := w.status(path(name)); s == nil || s.Result != contract.Held || s.Reason != contract.NotRemoved {
			t.Errorf("%s: %+v, want it held", name, s)
		}
		r.wantRemoval(name, "", contract.NotRemoved)
	}
	if after, _ := w.lastSaved(); after.Epoch == before.Epoch {
		t.Error("another branch in the same epoch")
	}
}

// What is lost once may be there again: a main that was set back to an ancestor
// counts when it goes on from where it was.
func TestAMainThatGoesOnIsFollowedByItself(t *testing.T) {
	w := newWorld(t)
	begin := w.remote.Head("main")
	w.commit("Add", map[string]string{path("a"): "1"})
	r := w.startAndFollow()
	accepted := w.remote.Head("main")
	w.remote.ForceHead("main", begin)
	r.wantHeld("MainRewritten")
	w.remote.ForceHead("main", accepted)
	w.commit("Go on", map[string]string{path("b"): "1"})
	r.follows()
	if c := r.Condition(); c.Reason != "Following" {
		t.Errorf("condition %+v", c)
	}
}

// From where main is followed counts only once it is saved.
func TestABeginThatWasNotSavedDoesNotCount(t *testing.T) {
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
	begun := r.Checkpoints.Begun()
	w.commit("Add", map[string]string{path("a"): "1"})
	r.follows()
	w.remote.ForceHead("main", begun)
	r.wantHeld("MainRewritten")
	other := w.commit("Another", map[string]string{path("b"): "1"})
	r.wantHeld("MainRewritten")
	w.eventually("it is seen", func() bool {
		store.Tell(r.wakeMain, "")
		return strings.Contains(r.Condition().Message, string(other))
	})
	full.Store(true)
	if err := r.Approve(t.Context(), other); err == nil {
		t.Error("no error")
	}
	if got := r.Checkpoints.Begun(); got != begun {
		t.Errorf("main is followed from %s, and from %s by what is saved", got, begun)
	}
	full.Store(false)
	if err := r.Approve(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	if saved, _ := w.lastSaved(); r.Checkpoints.Begun() != other || saved.Begun != other {
		t.Errorf("main is followed from %s, saved %+v", r.Checkpoints.Begun(), saved)
	}
}
