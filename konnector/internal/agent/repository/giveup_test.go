package repository

import (
	"context"
	"errors"
	"testing"
	"time"

	"gitbind.dev/gitbridge/guard"
	"gitbind.dev/gitbridge/store"
)

// inTime fails the test where something waits for another one that does not end.
func (w *world) inTime(what string, do func() error) error {
	w.Helper()
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		return err
	case <-time.After(20 * time.Second):
		w.Errorf("%s waits", what)
		return context.Canceled
	}
}

// Many ask the Git host for each other, and each of them may be stopped.
func TestWhoIsStoppedDoesNotWaitForWhatOthersAsk(t *testing.T) {
	t.Parallel()
	stopped, stop := context.WithCancel(t.Context())
	stop()
	t.Run("of removals", func(t *testing.T) {
		t.Parallel()
		w, o := newCounted(t, 2)
		head := w.put(w.person, keyOf(0).Path(), "")
		w.sees(head)
		asks, answer, judged := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		o.meanwhile = func() { close(asks); <-answer }
		go func() {
			_, err := w.repo.Removals.Judge(t.Context(), keyOf(0), true)
			judged <- err
		}()
		<-asks
		for what, do := range map[string]func() error{
			"a verdict":   func() error { _, err := w.repo.Removals.Judge(stopped, keyOf(1), true); return err },
			"a removal":   func() error { return w.repo.Removals.Begin(stopped, keyOf(1), guard.Verdict{}) },
			"a count":     func() error { _, _, _, err := w.repo.Removals.Held(stopped); return err },
			"an approval": func() error { return w.repo.Removals.Approve(stopped, string(head)) },
		} {
			if err := w.inTime(what, do); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", what, err)
			}
		}
		// A look at the second head waits until all is done that the first one leads to.
		for _, content := range []string{"1", "2"} {
			w.put(w.person, "a", content)
			if err := w.inTime("who looks at main", func() error {
				if _, err := w.repo.Remote.Main.Fetch(t.Context()); err != nil {
					return err
				}
				_, err := w.repo.View(t.Context())
				return err
			}); err != nil {
				t.Error(err)
			}
		}
		close(answer)
		if err := <-judged; err != nil {
			t.Error(err)
		}
	})
	t.Run("of main", func(t *testing.T) {
		t.Parallel()
		w, _ := newCounted(t, 1)
		saves, saved := make(chan struct{}, 10), make(chan struct{})
		w.repo.Checkpoints.write = func(context.Context, Checkpoint) error {
			saves <- struct{}{}
			<-saved
			return nil
		}
		s, err := w.person.Update(t.Context(), store.Edit{Author: store.Signature{Name: "Ada", Email: "ada@example.org"}, Subject: "move", Apply: func(tree *store.Tree) error {
			return errors.Join(tree.Remove(keyOf(0).Path()), tree.Write(keyOf(1).Path(), []byte(fileOf(keyOf(0), "plan0"))))
		}})
		if err != nil {
			t.Fatal(err)
		}
		w.repo.Wake()
		<-saves
		for what, do := range map[string]func() error{
			"a look":      func() error { _, err := w.repo.View(stopped); return err },
			"an approval": func() error { return w.repo.ApproveMain(stopped, "") },
		} {
			if err := w.inTime(what, do); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", what, err)
			}
		}
		close(saved)
		w.sees(s.Head())
	})
}
