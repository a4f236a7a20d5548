package claim

import (
	"context"
	"errors"
	"testing"
	"time"

	"gitbind.dev/gitbridge/breaker"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/memstore"
	"gitbind.dev/konnector/internal/agent/repository"
)

// When a Git host comes back from a backup, the konnector has commits that wait for it. On an
// older main, they would be in the way of who brings back what main was.
func TestNothingIsPushedOnAMainThatWasRestored(t *testing.T) {
	remote := memstore.New()
	main := remote.Branch("main")
	put := func(path string) *store.Snapshot {
		s, err := main.Update(t.Context(), store.Edit{Author: ada, Subject: "put", Apply: func(tree *store.Tree) error { return tree.Write(path, []byte("x")) }})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	backup, newest := put("old"), put("new")
	api := testAPI(t)
	api.Repository = repository.New(repository.Options{
		Remote:     repository.Remote{Main: main, Status: remote.Branch("status"), Branch: remote.Branch},
		Checkpoint: repository.Checkpoint{Accepted: newest.Head()},
		Limits:     breaker.Default(), Now: time.Now, Save: func(context.Context, repository.Checkpoint) error { return nil },
	})
	r := &reconciler{}
	r.current.Store(&api)
	l := inStep()
	l.file = nil
	remote.ForceHead("main", backup.Head())

	_, err := r.push(t.Context(), l, change{verb: "create", apply: func(tree *store.Tree) error { return tree.Write(key.Path(), []byte("x")) }})
	if !errors.Is(err, errMoved) || remote.Head("main") != backup.Head() {
		t.Errorf("a claim: %v; main is at %s", err, remote.Head("main"))
	}
	err = r.pushInputs(t.Context(), l, "add", func(tree *store.Tree) error { return tree.Write(key.InputsPath(), []byte("x")) })
	if !errors.Is(err, errMoved) || remote.Head("main") != backup.Head() {
		t.Errorf("its inputs: %v; main is at %s", err, remote.Head("main"))
	}
}

// A claim in step is not held while its main is another one, and has nothing to be decided on.
func TestInputsWaitWhileMainIsReplacedOrTheClusterHasACopy(t *testing.T) {
	api := testAPI(t)
	r := &reconciler{}
	r.current.Store(&api)
	for _, c := range []struct {
		name string
		view repository.View
		want bool
	}{
		{"in order", repository.View{}, true},
		{"main is replaced", repository.View{Replaced: "another history"}, false},
		{"status is replaced", repository.View{StatusReplaced: "another history"}, false},
		{"the cluster has a copy", repository.View{Copied: "another cluster"}, false},
	} {
		l := inStep()
		l.view, l.answer.UID = c.view, "u1"
		if _, ok := r.uidOfInputs(l); ok != c.want {
			t.Errorf("%s: inputs are sent: %v, want %v", c.name, ok, c.want)
		}
	}
}
