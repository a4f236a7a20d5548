package app_test

import (
	"errors"
	"fmt"

	"github.com/google/go-cmp/cmp"

	"gitbind.dev/gitbridge/contract"
)

func errorf(format string, args ...any) error { return fmt.Errorf(format, args...) }

func cmpError(want, got any) error {
	if diff := cmp.Diff(want, got); diff != "" {
		return errors.New(diff)
	}
	return nil
}

// answerGone is a tombstone for another object, or of an older removal.
func (w *world) answerGone(name, uid, commit string) {
	w.Helper()
	key := w.key(name)
	data, err := contract.EncodeStatus(&contract.Status{Result: contract.Gone, UID: uid, Answers: contract.Answers{Commit: commit}})
	w.must(err)
	w.put(w.bridge, "status of "+key.String(), key.Path(), data)
}
