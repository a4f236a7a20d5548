package claim

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
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
	remote.Committer.Name, remote.Committer.Email = contract.ComponentIdentity(contract.Konnector, cluster)
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
	w.server = fakeapi.New(fakeapi.Builder().WithObjects(w.look.object, namespace, postgresql()).WithStatusSubresource(w.look.object), interceptor.Funcs{
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
	noted := &written{}
	noting := newNotingClient(w.server, noted)
	w.r = &reconciler{
		cached: w.server, live: w.server, client: noting, written: noted, secrets: newSecretDelivery(noting), recorder: &events.FakeRecorder{},
		writes: budget.Budget{Most: maxWrites, Every: writeEvery}, statuses: budget.Budget{Most: maxStatuses, Every: statusEvery},
		common: &common{bytes: newByteBudget()}, large: newLargeLooks(), held: newHeldFiles(nil, func() {}), rejected: workqueue.NewTypedItemExponentialFailureRateLimiter[contract.Key](rejectedWait, mostRejectedWait),
	}
	w.r.inputs = newInputSender(inputs.New(t.Context(), nil, w.server, nil), &w.r.pending, w.r.bytes)
	w.r.current.Store(&api)
	w.look.api, w.look.object = &api, w.object()
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
