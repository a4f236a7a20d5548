package gitstore_test

import (
	"testing"

	"gitbind.dev/gitbridge/store/storetest"
)

// The remote is git itself, behind its own HTTP program.
func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Remote {
		h := newHost(t)
		t.Cleanup(h.check)
		return h
	})
}
