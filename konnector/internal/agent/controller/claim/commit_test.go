package claim

import (
	"context"
	"encoding/base64"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gitbind.dev/gitbridge/breaker"
	"gitbind.dev/gitbridge/contract"
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
	r, l := &reconciler{common: &common{bytes: newByteBudget()}}, inStep()
	l.api, l.file = &api, nil
	remote.ForceHead("main", backup.Head())

	_, err := r.push(t.Context(), l, change{verb: "create", apply: func(tree *store.Tree) error { return tree.Write(key.Path(), []byte("x")) }})
	if !errors.Is(err, errMoved) || remote.Head("main") != backup.Head() {
		t.Errorf("a claim: %v; main is at %s", err, remote.Head("main"))
	}
	err = r.inputs.push(t.Context(), l, "add", func(tree *store.Tree) error { return tree.Write(key.InputsPath(), []byte("x")) })
	if !errors.Is(err, errMoved) || remote.Head("main") != backup.Head() {
		t.Errorf("its inputs: %v; main is at %s", err, remote.Head("main"))
	}
}

// A claim in step is not held while its main is another one, and has nothing to be decided on.
func TestInputsWaitWhileMainIsReplacedOrTheClusterHasACopy(t *testing.T) {
	api := testAPI(t)
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
		l.api, l.view, l.answer.UID = &api, c.view, "u1"
		if _, ok := l.uidOfInputs(); ok != c.want {
			t.Errorf("%s: inputs are sent: %v, want %v", c.name, ok, c.want)
		}
	}
}

// The bridge takes only what is bound to the UID that it knows.
func TestInputsAreOfTheClaimThatTheControlPlaneKnows(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		committed bool
		// answered is the UID of the answer to the file of hash blob.
		answered, blob, want string
	}{
		{"a commit named it, and no answer covers that commit", true, "", "b0", "u1"},
		{"another object had the name before", true, "u0", "b1", "u1"},
		{"status began anew after the commit that named it", true, "", "b1", ""},
		{"no commit named it, and another was before", false, "u0", "b1", "u0"},
		{"no commit ever named one", false, "", "b1", ""},
	} {
		l := inStep()
		api := testAPI(t)
		api.Repository = &repository.Repository{Options: repository.Options{ConnectionUID: "connection"}}
		l.api, l.base.Committed, l.base.Connection = &api, c.committed, "connection"
		l.answer.UID, l.answer.Answers.Blob = c.answered, c.blob
		if uid, ok := l.uidOfInputs(); uid != c.want || !ok {
			t.Errorf("%s: %q, %v; want %q", c.name, uid, ok, c.want)
		}
	}
}

// noise is a text of n bytes that can hardly be compressed.
func noise(n int) string {
	data := make([]byte, n*3/4)
	_, _ = rand.NewChaCha8([32]byte{}).Read(data)
	return base64.StdEncoding.EncodeToString(data)
}

// The API server bounds an object's annotations together, and kubectl apply keeps a copy of the
// object among them. What is pushed without its base looks like somebody else's later.
func TestL15_WhatHasNoRoomForItsBaseIsNotPushed(t *testing.T) {
	t.Parallel()
	large := version(noise(150 << 10))
	for name, push := range map[string]func(w *gitWorld) error{
		"an edit": func(w *gitWorld) error {
			w.look.facts.Live = large
			_, err := w.r.commit(t.Context(), w.look)
			return err
		},
		"a proposal": func(w *gitWorld) error {
			w.look.facts.Live = large
			_, err := w.r.propose(t.Context(), w.look)
			return err
		},
		"a merge": func(w *gitWorld) error {
			w.look.facts.Merged = large
			_, err := w.r.merge(t.Context(), w.look)
			return err
		},
	} {
		w := newGitWorld(t)
		w.change(func(u *unstructured.Unstructured) {
			u.SetAnnotations(map[string]string{"kubectl.kubernetes.io/last-applied-configuration": noise(150 << 10)})
		})
		w.look.object, w.look.facts.Base = w.object(), version("small")
		before := w.main.Snapshot().Head()
		if err := push(w); !errors.Is(err, errTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
		if now := w.remote.Head("main"); now != before || w.remote.Head(contract.ChangeBranch(key)) != "" {
			t.Errorf("%s: it is pushed", name)
		}
	}
}
