package claim

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/memstore"
	"gitbind.dev/konnector/internal/agent/decision"
	"gitbind.dev/konnector/internal/choice"
)

// change has a user change the object.
func (w *gitWorld) change(change func(*unstructured.Unstructured)) {
	w.Helper()
	u := w.object()
	change(u)
	if err := w.server.Update(w.Context(), u); err != nil {
		w.Fatal(err)
	}
}

// write writes a file to a branch, or removes it, with clients of its own, and returns the commit.
// A branch that is new begins at main.
func (w *gitWorld) write(branch, path string, data []byte) store.Hash {
	w.Helper()
	main, err := w.remote.Branch("main").Fetch(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	s, err := w.remote.Branch(branch).UpdateFrom(w.Context(), main, store.Edit{Author: ada, Subject: "write " + path, Apply: func(tree *store.Tree) error {
		if data == nil {
			return tree.Remove(path)
		}
		return tree.Write(path, data)
	}})
	if err != nil {
		w.Fatal(err)
	}
	return s.Head()
}

var errAway = errors.New("the Git host does not answer")

// run lets the repository follow main.
func (w *gitWorld) run() {
	w.Helper()
	ctx, stop := context.WithCancel(w.Context())
	var running sync.WaitGroup
	w.Cleanup(func() { stop(); running.Wait() })
	running.Go(func() { w.r.api().Repository.Run(ctx) })
	for start := time.Now(); !w.r.api().Repository.Health().Contacted; time.Sleep(time.Millisecond) {
		if time.Since(start) > time.Minute {
			w.Fatal("the repository was not contacted")
		}
	}
}

// inStep looks and acts until there is nothing left to do, or an error other than errMoved.
func (w *gitWorld) inStep() error {
	w.Helper()
	for range maxRounds {
		u, err := w.r.get(w.Context(), key)
		if err != nil {
			return err
		}
		l, err := w.r.look(w.Context(), key, input{Reader: w.server, object: u})
		if err != nil || l.settled() {
			return err
		}
		if _, err := w.r.act(w.Context(), l); err != nil && !errors.Is(err, errMoved) {
			return err
		}
	}
	w.Error("it does not come to an end")
	return nil
}

// isCutOff wants it to have an error, as the Git host does not answer.
func (w *gitWorld) isCutOff(otherwise string) {
	w.Helper()
	if err := w.inStep(); !errors.Is(err, errAway) {
		w.Fatalf("%s: %v", otherwise, err)
	}
}

// agreed has the object, the plan of which is small, and main agree.
func (w *gitWorld) agreed() {
	w.Helper()
	data, err := contract.Encode(version("small"))
	if err != nil {
		w.Fatal(err)
	}
	w.write("main", key.Path(), data)
	w.run()
	if err := w.inStep(); err != nil {
		w.Fatal(err)
	}
}

// ends wants object and main to say what the object says now, once the host answers again.
func (w *gitWorld) ends() {
	w.Helper()
	want := contract.FromObject(w.object())
	data, err := contract.Encode(want)
	if err != nil {
		w.Fatal(err)
	}
	w.remote.SetFault(nil)
	if _, err := w.main.Fetch(w.Context()); err != nil {
		w.Fatal(err)
	}
	if err := w.inStep(); err != nil {
		w.Fatal(err)
	}
	if file, _ := w.main.Snapshot().Entry(key.Path()); !contract.Equal(contract.FromObject(w.object()), want) || file.Hash != store.BlobHash(data) {
		now, _ := w.main.Snapshot().Read(key.Path())
		w.Errorf("the object says %v, main says %s", w.object().Object, now)
	}
}

func planned(plan string) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) {
		u.Object["spec"] = map[string]any{"plan": plan}
		u.SetGeneration(u.GetGeneration() + 1)
	}
}

func labelled(labels map[string]string) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) { u.SetLabels(labels) }
}

// What came to main without an answer is the konnector's own, whatever its user does before main
// is known again.
func TestAPushWithoutAnAnswerOverwritesNothing(t *testing.T) {
	stamped := map[string]string{"stamp": "x"}
	for name, c := range map[string]struct {
		first, then func(*unstructured.Unstructured)
	}{
		"edited":               {planned("big"), planned("huge")},
		"edited back":          {planned("big"), planned("small")},
		"labelled otherwise":   {labelled(map[string]string{"tier": "a"}), labelled(map[string]string{"tier": "b"})},
		"labelled, taken back": {labelled(map[string]string{"tier": "a"}), labelled(nil)},
		"labelled, taken back beside what a webhook stamps": {labelled(map[string]string{"stamp": "x", "tier": "a"}), labelled(stamped)},
	} {
		t.Run(name, func(t *testing.T) {
			w := newGitWorld(t)
			w.agreed()
			if strings.Contains(name, "stamps") {
				w.change(labelled(stamped))
				u := w.object()
				w.r.admitted.set(key, stateOf(u, w.r.api().schema.Normalize(contract.FromObject(u))))
			}
			w.change(c.first)
			w.remote.CutAfterPush(errAway)
			w.isCutOff("its push was answered")
			w.change(c.then)
			w.isCutOff("it was agreed on without asking main")
			w.ends()
		})
	}
}

// Of several pushes, any may be the one that came to main.
func TestSeveralPushesWithoutAnAnswerOverwriteNothing(t *testing.T) {
	w := newGitWorld(t)
	w.agreed()
	w.change(planned("big"))
	w.remote.CutAfterPush(errAway)
	w.isCutOff("its push was answered")
	w.remote.SetFault(func(c memstore.Call) error {
		if c.Op == memstore.Push {
			return errAway
		}
		return nil
	})
	w.change(planned("huge"))
	w.isCutOff("its push was answered")
	w.ends()
}

// A push is tried again by itself, and what is answered then says nothing of the try before.
func TestARefusalAfterALostAnswerIsNoAnswer(t *testing.T) {
	w := newGitWorld(t)
	w.agreed()
	w.change(planned("big"))
	pushes := 0
	w.remote.SetFault(func(c memstore.Call) error {
		switch {
		case c.Op == memstore.Push && !c.After:
			if pushes++; pushes > 1 {
				return &store.NotTakenError{Reason: "its disk is full"}
			}
		case pushes > 0:
			return errAway
		}
		return nil
	})
	if err := w.inStep(); err == nil {
		t.Fatal("its push was answered")
	}
	w.change(planned("small"))
	w.isCutOff("it was agreed on without asking main")
	w.ends()
}

// So it is where a claim is deleted whose order had no answer.
func TestAClaimWhoseOrderHadNoAnswerIsTakenBack(t *testing.T) {
	w := newGitWorld(t)
	w.write("main", key.Path(), nil)
	observed, err := contract.EncodeObserved(contract.Observed{Commit: string(w.remote.Head("main")), Epoch: "e1"})
	if err != nil {
		t.Fatal(err)
	}
	w.write("status", contract.ObservedPath, observed)
	w.run()
	w.remote.CutAfterPush(errAway)
	w.isCutOff("its push was answered")
	if err := w.server.Delete(t.Context(), w.object()); err != nil {
		t.Fatal(err)
	}
	w.isCutOff("it was let go without asking main")
	w.remote.SetFault(nil)
	if err := w.inStep(); err != nil {
		t.Fatal(err)
	}
	if w.isOnMain() {
		t.Error("its file stays")
	}
}

// An approval takes the branch away, too. What was proposed is known to be the konnector's own
// as long as the object says that it was proposed.
func TestWhatIsApprovedMeanwhileIsNotForgotten(t *testing.T) {
	for name, act := range map[string]func(*gitWorld) (*unstructured.Unstructured, error){
		"withdrawn": func(w *gitWorld) (*unstructured.Unstructured, error) { return w.r.withdraw(w.Context(), w.look) },
		"proposed again": func(w *gitWorld) (*unstructured.Unstructured, error) {
			w.look.decision.Action, w.look.facts.Live = decision.Propose, version("big")
			return w.r.act(w.Context(), w.look)
		},
		"released": func(w *gitWorld) (*unstructured.Unstructured, error) { return w.r.release(w.Context(), w.look) },
	} {
		for _, begun := range []bool{false, true} {
			for _, approved := range []bool{false, true} {
				w := newGitWorld(t)
				branch := contract.ChangeBranch(key)
				commit := w.write(branch, key.Path(), []byte("what is proposed"))
				if approved {
					w.remote.ForceHead("main", commit)
					if err := w.remote.Branch(branch).Remove(t.Context(), commit); err != nil {
						t.Fatal(err)
					}
				}
				u := w.object()
				u.SetAnnotations(map[string]string{v1alpha1.ProposalAnnotation: "{}"})
				if err := w.server.Update(t.Context(), u); err != nil {
					t.Fatal(err)
				}
				w.look.object = u
				w.look.facts.Proposed = &decision.Proposed{Branch: branch, Commit: string(commit), Begun: begun}
				_, err := act(w)
				if approved != errors.Is(err, errMoved) || !approved && err != nil {
					t.Errorf("%s, begun %t, approved %t: %v", name, begun, approved, err)
				}
				if approved && w.object().GetAnnotations()[v1alpha1.ProposalAnnotation] == "" {
					t.Errorf("%s, begun %t: the proposal is forgotten", name, begun)
				}
			}
		}
	}
}

// Whether main has another file than the one that was looked at is one question, whatever it is
// asked for.
func TestMainIsAskedOnceBeforeAnotherProposal(t *testing.T) {
	for _, doubts := range []bool{false, true} {
		w := newGitWorld(t)
		branch := contract.ChangeBranch(key)
		commit := w.write(branch, key.Path(), []byte("what is proposed"))
		w.look.decision.Action, w.look.facts.Live = decision.Propose, version("big")
		w.look.facts.Proposed = &decision.Proposed{Branch: branch, Commit: string(commit)}
		if doubts {
			w.r.api().Repository.Doubts.Note(contract.ObjectTrailer{Key: key})
		}
		asked := 0
		w.remote.SetFault(func(c memstore.Call) error {
			if c.Branch == "main" && c.Op == memstore.Head && !c.After {
				asked++
			}
			return nil
		})
		if _, err := w.r.act(t.Context(), w.look); err != nil || asked != 1 {
			t.Errorf("doubts %t: asked %d times, %v", doubts, asked, err)
		}
	}
}

// TestANewObjectBesideAHistoryThatIsTooLongIsHeld has the finalizer on from the beginning, as the
// attribution policy puts it there.
func TestANewObjectBesideAHistoryThatIsTooLongIsHeld(t *testing.T) {
	t.Parallel()
	w := newGitWorld(t)
	w.write("main", "other", []byte("1")) // of what comes at once, the last alone is known
	w.write("main", key.Path(), nil)
	w.run()
	w.remote.SetFault(func(c memstore.Call) error {
		if c.Op == memstore.Log {
			return &store.LimitError{Branch: "main", Reason: "the history before it: more than 67108864 bytes of commits"}
		}
		return nil
	})
	l, err := w.r.look(t.Context(), key, input{Reader: w.server, object: w.object()})
	if err != nil || l.decision.Action != decision.Hold || l.decision.Reason != decision.HistoryTooLong {
		t.Fatalf("%+v, %v", l, err)
	}
	w.change(func(u *unstructured.Unstructured) {
		u.SetAnnotations(map[string]string{v1alpha1.ResolveAnnotation: choice.Keep.Answer(l.decision.Token)})
	})
	if err := w.inStep(); err != nil || !w.isOnMain() {
		t.Errorf("a person had it ordered, yet: on main %t, %v", w.isOnMain(), err)
	}
}
