package branch

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"gitbind.dev/gitbridge/store"
)

// wall is a remote that rejects every push.
type wall struct {
	Remote
	pushes int
}

func (*wall) Head(context.Context) (store.Hash, error) { return "", nil }

func (w *wall) Push(context.Context, Push) error {
	w.pushes++
	return fmt.Errorf("%w: closed", store.ErrRejected)
}

// The search for the edits at fault ends where all of them are.
func TestARemoteThatRejectsEverythingIsNotAskedForEachEdit(t *testing.T) {
	w := &wall{}
	c := New(w, Options{})
	var batch []*pending
	for i := range 500 {
		batch = append(batch, &pending{ctx: t.Context(), done: make(chan answer, 1), edit: store.Edit{
			Apply: func(t *store.Tree) error { return t.Write(fmt.Sprint("ns/", i), nil) },
		}})
	}
	rejections := maxRejections
	c.process(t.Context(), batch, &rejections)
	final := 0
	for _, p := range batch {
		// The others may be tried again.
		if errors.Is((<-p.done).err, store.ErrRejected) {
			final++
		}
	}
	if w.pushes > maxRejections || final == 0 || final > maxRejections {
		t.Errorf("%d pushes, %d edits rejected for good", w.pushes, final)
	}
}
