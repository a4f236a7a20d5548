package claim

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/breaker"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/guard"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/memstore"
	"gitbind.dev/konnector/internal/agent/budget"
	"gitbind.dev/konnector/internal/agent/decision"
	"gitbind.dev/konnector/internal/agent/inputs"
	"gitbind.dev/konnector/internal/agent/repository"
	"gitbind.dev/konnector/internal/base"
	"gitbind.dev/test/fakeapi"
)

// ada is a person who pushes to main.
var ada = store.Signature{Name: "Ada", Email: "ada@example.org"}

// gitWorld is a reconciler with one claim that is on main, and whose removal may pass.
type gitWorld struct {
	*testing.T
	r      *reconciler
	remote *memstore.Remote
	main   store.Branch
	server client.WithWatch
	look   *look
	// save is called to save a checkpoint, beforeUpdate before an object is updated, and
	// beforeDelete before it is deleted.
	save         func() error
	beforeUpdate func()
	beforeDelete func(client.DeleteOptions)
}

func newGitWorld(t *testing.T) *gitWorld {
	t.Helper()
	const cluster = "k3x9d2abqw"
	remote := memstore.New()
	person := remote.Committer
	remote.Committer.Name, remote.Committer.Email = contract.ComponentIdentity(repository.Committer, cluster)
	w := &gitWorld{T: t, remote: remote, main: remote.Branch("main"), look: inStep(), save: func() error { return nil }, beforeUpdate: func() {}, beforeDelete: func(client.DeleteOptions) {}}
	s, err := w.main.Update(t.Context(), store.Edit{Author: ada, Subject: "order", Apply: func(tree *store.Tree) error {
		return tree.Write(key.Path(), []byte("file"))
	}})
	if err != nil {
		t.Fatal(err)
	}
	entry, _ := s.Entry(key.Path())
	w.look.view.Main, w.look.file = s, &entry
	w.look.base = &base.Base{UID: "u1", Commit: string(s.Head()), Claim: version("small")}
	w.look.facts.Removal = &guard.Verdict{Passing: []breaker.Removal{{Path: key.Path(), At: time.Now()}}}
	w.look.object.SetFinalizers([]string{v1alpha1.Finalizer})
	namespace := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": key.Namespace}}}
	scheme := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	w.server = fakeapi.New(fakeapi.Builder().WithScheme(scheme).WithObjects(w.look.object, namespace, postgresql()), interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			var all client.UpdateOptions
			if all.ApplyOptions(opts); len(all.DryRun) > 0 {
				return nil
			}
			w.beforeUpdate()
			return c.Update(ctx, o, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			var all client.DeleteOptions
			w.beforeDelete(*all.ApplyOptions(opts))
			return c.Delete(ctx, o, opts...)
		},
	})
	api := testAPI(t)
	api.Repository = repository.New(repository.Options{
		Remote: repository.Remote{Main: w.main, Status: remote.Branch("status"), Branch: remote.Branch},
		Limits: breaker.Default(), Now: time.Now, Save: func(context.Context, repository.Checkpoint) error { return w.save() },
		ClusterID: cluster,
	})
	remote.Committer = person
	w.r = &reconciler{
		cached: w.server, live: w.server, client: newNotingClient(w.server, &written{}), recorder: &events.FakeRecorder{},
		inputs: inputs.New(t.Context(), nil, w.server, nil), writes: budget.Budget{Most: maxWrites, Every: writeEvery},
	}
	w.r.current.Store(&api)
	w.look.object = w.object()
	return w
}

// object is what the API server has.
func (w *gitWorld) object() *unstructured.Unstructured {
	w.Helper()
	u, err := w.r.get(w.Context(), key)
	if err != nil || u == nil {
		w.Fatal(u, err)
	}
	return u
}

// isOnMain reports whether main has the claim's file.
func (w *gitWorld) isOnMain() bool {
	w.Helper()
	s, err := w.main.Fetch(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	_, ok := s.Entry(key.Path())
	return ok
}

// What is not remembered is not counted after a restart, and more would pass than may.
func TestNothingIsRemovedThatCouldNotBeRemembered(t *testing.T) {
	w := newGitWorld(t)
	unsaved := errors.New("the API server does not answer")
	w.save = func() error { return unsaved }
	if _, err := w.r.removeFile(t.Context(), w.look); !errors.Is(err, unsaved) || !w.isOnMain() {
		t.Errorf("file: %v, on main: %v", err, w.isOnMain())
	}
	if _, err := w.r.delete(t.Context(), w.look); !errors.Is(err, unsaved) || w.object().GetDeletionTimestamp() != nil {
		t.Errorf("object: %v", err)
	}
	w.save = func() error {
		if !w.isOnMain() {
			t.Error("it is remembered after it was removed")
		}
		return nil
	}
	if _, err := w.r.removeFile(t.Context(), w.look); err != nil || w.isOnMain() {
		t.Errorf("file: %v, on main: %v", err, w.isOnMain())
	}
}

// A person who edits an object, or makes another of its name, does not lose that to a removal
// that was decided before.
func TestAnObjectIsDeletedAsItWasDecidedOn(t *testing.T) {
	w := newGitWorld(t)
	w.beforeDelete = func(o client.DeleteOptions) {
		// The fake API server does not look at UIDs.
		if p := o.Preconditions; p == nil || p.UID == nil || *p.UID != "u1" {
			t.Errorf("preconditions %+v", p)
		}
		u := w.object()
		if err := errors.Join(unstructured.SetNestedField(u.Object, "big", "spec", "plan"), w.server.Update(t.Context(), u)); err != nil {
			t.Error(err)
		}
	}
	if _, err := w.r.delete(t.Context(), w.look); !errors.Is(err, errMoved) || w.object().GetDeletionTimestamp() != nil {
		t.Errorf("edited meanwhile: %v", err)
	}
	w.beforeDelete = func(client.DeleteOptions) {}
	w.look.object = w.object()
	if u, err := w.r.delete(t.Context(), w.look); err != nil || u.GetDeletionTimestamp() == nil {
		t.Errorf("as it was: %v", err)
	}
}

// What was decided on may be on main again before it is done: between the two, a checkpoint is
// saved.
func TestAnObjectIsNotDeletedWhenItsFileChangesMeanwhile(t *testing.T) {
	w := newGitWorld(t)
	w.save = func() error {
		_, err := w.main.Update(t.Context(), store.Edit{Author: ada, Subject: "put back", Apply: func(tree *store.Tree) error {
			return tree.Write(key.Path(), []byte("again"))
		}})
		return err
	}
	if _, err := w.r.delete(t.Context(), w.look); !errors.Is(err, errMoved) || w.object().GetDeletionTimestamp() != nil {
		t.Errorf("deleted: %v", err)
	}
}

// What was merged is on main by then, and the object does not say what came from there: with
// that as its base, it would look as if somebody had taken that back.
func TestAnEditDuringAMergeTakesNothingBackOfTheFile(t *testing.T) {
	w := newGitWorld(t)
	with := func(plan, service string) *contract.Claim {
		c := version(plan)
		c.Spec["service"] = service
		return c
	}
	live, file, merged := with("big", "pg13"), with("small", "pg14"), with("big", "pg14")
	f := &w.look.facts
	f.Live, f.File, f.Base, f.Merged = live, file, with("small", "pg13"), merged
	w.look.decision.Action = decision.Merge
	w.beforeUpdate = func() {
		w.beforeUpdate = func() {}
		u := w.object()
		if err := errors.Join(unstructured.SetNestedField(u.Object, "bigger", "spec", "plan"), w.server.Update(t.Context(), u)); err != nil {
			t.Error(err)
		}
	}
	u, err := w.r.merge(t.Context(), w.look)
	if err != nil {
		t.Fatal(err)
	}
	b := base.Read(u)
	if b == nil || !contract.Equal(b.Claim, live) || b.Blob != "" || b.Commit != string(w.main.Snapshot().Head()) || !b.Committed {
		t.Errorf("the base is %+v", b)
	}
}

// Lists of finalizers and of users are written as a whole: what others add meanwhile stays.
func TestMetadataIsChangedOnlyOnWhatWasSeen(t *testing.T) {
	for name, m := range map[string]metadata{"finalizer off": {release: true}, "users credited": {changedBy: new("")}} {
		w := newGitWorld(t)
		seen := w.object()
		u := seen.DeepCopy()
		u.SetFinalizers(append(u.GetFinalizers(), "example.org/other"))
		u.SetAnnotations(map[string]string{v1alpha1.ChangedByAnnotation: "bob"})
		if err := w.server.Update(t.Context(), u); err != nil {
			t.Fatal(err)
		}
		if _, err := w.r.patch(t.Context(), seen, m); !errors.Is(err, errMoved) {
			t.Errorf("%s: %v", name, err)
		}
		if now := w.object(); len(now.GetFinalizers()) != 2 || now.GetAnnotations()[v1alpha1.ChangedByAnnotation] != "bob" {
			t.Errorf("%s: %v, %v", name, now.GetFinalizers(), now.GetAnnotations())
		}
		if _, err := w.r.patch(t.Context(), w.object(), m); err != nil {
			t.Errorf("%s, on what is there: %v", name, err)
		}
	}
}

// A person's commit may come between the look at a file and the push: what was decided was
// decided without it.
func TestNothingIsPushedOverAFileThatChangedMeanwhile(t *testing.T) {
	write := func(content string) func(*store.Tree) error {
		return func(tree *store.Tree) error { return tree.Write(key.Path(), []byte(content)) }
	}
	remove := func(tree *store.Tree) error { return tree.Remove(key.Path()) }
	for name, c := range map[string]struct {
		// unseen says that there was no file, meanwhile is what a person does.
		unseen    bool
		meanwhile func(*store.Tree) error
	}{
		"made":    {true, write("a person's")},
		"edited":  {false, write("a person's")},
		"removed": {false, remove},
	} {
		w := newGitWorld(t)
		if c.unseen {
			w.look.file = nil
		}
		if _, err := w.main.Update(t.Context(), store.Edit{Author: ada, Subject: name, Apply: c.meanwhile}); err != nil {
			t.Fatal(err)
		}
		head := w.main.Snapshot().Head()
		for verb, apply := range map[string]func(*store.Tree) error{"update": write("the cluster's"), "delete": remove} {
			if _, err := w.r.push(t.Context(), w.look, change{verb: verb, apply: apply}); !errors.Is(err, errMoved) || w.main.Snapshot().Head() != head {
				t.Errorf("%s, %s: %v", name, verb, err)
			}
		}
	}
}

// change has a user change the object.
func (w *gitWorld) change(change func(*unstructured.Unstructured)) {
	w.Helper()
	u := w.object()
	change(u)
	if err := w.server.Update(w.Context(), u); err != nil {
		w.Fatal(err)
	}
}

// write writes a file to a branch, or removes it, with a client of its own.
func (w *gitWorld) write(branch, path string, data []byte) {
	w.Helper()
	_, err := w.remote.Branch(branch).Update(w.Context(), store.Edit{Author: ada, Subject: "write " + path, Apply: func(tree *store.Tree) error {
		if data == nil {
			return tree.Remove(path)
		}
		return tree.Write(path, data)
	}})
	if err != nil {
		w.Fatal(err)
	}
}

var errAway = errors.New("the Git host does not answer")

// cut has the Git host's answers lost from the next push on.
func (w *gitWorld) cut() {
	cut := false
	w.remote.SetFault(func(c memstore.Call) error {
		if cut = cut || c.Op == memstore.Push && c.After; cut {
			return errAway
		}
		return nil
	})
}

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

// What came to main without an answer is the konnector's own, whatever its user does before main
// is known again.
func TestAPushWithoutAnAnswerOverwritesNothing(t *testing.T) {
	set := func(path ...string) func(*unstructured.Unstructured) {
		return func(u *unstructured.Unstructured) {
			if err := unstructured.SetNestedField(u.Object, path[len(path)-1], path[:len(path)-1]...); err != nil {
				t.Error(err)
			}
			u.SetGeneration(u.GetGeneration() + 1)
		}
	}
	label := func(value string) func(*unstructured.Unstructured) {
		return func(u *unstructured.Unstructured) { u.SetLabels(map[string]string{"tier": value}) }
	}
	for name, c := range map[string]struct {
		first, then func(*unstructured.Unstructured)
	}{
		"edited":               {set("spec", "plan", "big"), set("spec", "plan", "huge")},
		"edited back":          {set("spec", "plan", "big"), set("spec", "plan", "small")},
		"labelled otherwise":   {label("a"), label("b")},
		"labelled, taken back": {label("a"), func(u *unstructured.Unstructured) { u.SetLabels(nil) }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newGitWorld(t)
			data, err := contract.Encode(version("small"))
			if err != nil {
				t.Fatal(err)
			}
			w.write("main", key.Path(), data)
			w.run()
			if err := w.inStep(); err != nil {
				t.Fatal(err)
			}
			w.change(c.first)
			w.cut()
			if err := w.inStep(); !errors.Is(err, errAway) {
				t.Fatalf("its push was answered: %v", err)
			}
			w.change(c.then)
			want := contract.FromObject(w.object())
			if err := w.inStep(); !errors.Is(err, errAway) {
				t.Errorf("it was agreed on without asking main: %v", err)
			}
			w.remote.SetFault(nil)
			if err := w.inStep(); err != nil {
				t.Fatal(err)
			}
			data, err = contract.Encode(want)
			if err != nil {
				t.Fatal(err)
			}
			if file, _ := w.main.Snapshot().Entry(key.Path()); !contract.Equal(contract.FromObject(w.object()), want) || file.Hash != store.BlobHash(data) {
				now, _ := w.main.Snapshot().Read(key.Path())
				t.Errorf("the object says %v, main says %s", w.object().Object, now)
			}
		})
	}
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
	w.cut()
	if err := w.inStep(); !errors.Is(err, errAway) {
		t.Fatalf("its push was answered: %v", err)
	}
	if err := w.server.Delete(t.Context(), w.object()); err != nil {
		t.Fatal(err)
	}
	if err := w.inStep(); !errors.Is(err, errAway) {
		t.Errorf("it was let go without asking main: %v", err)
	}
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
			w.look.facts.Live = version("big")
			return w.r.propose(w.Context(), w.look)
		},
		"released": func(w *gitWorld) (*unstructured.Unstructured, error) { return w.r.release(w.Context(), w.look) },
	} {
		for _, begun := range []bool{false, true} {
			for _, approved := range []bool{false, true} {
				w := newGitWorld(t)
				branch := contract.ChangeBranch(key)
				commit := w.pushBeside(branch, "what is proposed")
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

// pushBeside has a person commit the claim's file to a branch that begins at main, and returns the
// commit. The world's own clients do not know of it.
func (w *gitWorld) pushBeside(branch, content string) store.Hash {
	w.Helper()
	b := w.remote.Branch(branch)
	if _, err := b.Fetch(w.Context()); err != nil {
		w.Fatal(err)
	}
	s, err := b.UpdateFrom(w.Context(), w.main.Snapshot(), store.Edit{Author: ada, Subject: "change", Apply: func(tree *store.Tree) error {
		return tree.Write(key.Path(), []byte(content))
	}})
	if err != nil {
		w.Fatal(err)
	}
	return s.Head()
}
