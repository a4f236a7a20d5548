package session_test

import (
	"errors"
	"testing"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/session"
	"gitbind.dev/gitbridge/internal/statusbranch"
)

// Controllers that are not the session's own write in it, too, and go on when it has
// ended: by then, another bridge may follow the repository.
func TestNothingIsWrittenAfterTheSessionHasEnded(t *testing.T) {
	w := newWorld(t)
	w.commit("Add", map[string]string{path("a"): "1"})
	r := w.startAndFollow()
	r.answer(path("a"), contract.Applied)
	r.stop()
	before := w.remote.Head("status")
	err := r.Write(t.Context(), statusbranch.Change{Path: contract.ExportPath("x"), Data: []byte("late"), Subject: "status: export x"})
	if !errors.Is(err, session.ErrEnded) || w.remote.Head("status") != before {
		t.Errorf("%v, and status went from %s to %s", err, before.Short(), w.remote.Head("status").Short())
	}
}
