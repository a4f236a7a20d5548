package gitstore_test

import (
	"errors"
	"slices"
	"testing"

	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/gitstore"
	"gitbind.dev/gitbridge/store/storetest"
)

func TestEachPushThatTheRemoteTookIsTold(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.git("config", "receive.denyNonFastForwards", "true")
	var told []string
	b := h.open(gitstore.Options{Pushed: func(branch string, head store.Hash) {
		told = append(told, branch+" "+string(head))
	}}).Branch("status")
	var want []string
	for _, content := range []string{"1", "2"} {
		want = append(want, "status "+string(update(t, b, storetest.Put("x", content)).Head()))
	}
	if _, err := b.Cut(t.Context(), storetest.Put("x", "3")); !errors.Is(err, store.ErrRejected) {
		t.Fatalf("got %v", err)
	}
	if !slices.Equal(told, want) {
		t.Errorf("told of %v, want %v", told, want)
	}
}
