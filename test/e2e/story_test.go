// Package e2e tests all of gitbind from the outside, on real parts.
package e2e

import (
	"context"
	"testing"

	"gitbind.dev/test/e2e/platform"
	"gitbind.dev/test/e2e/story"
)

// TestStory is what `make demo-once` tells.
func TestStory(t *testing.T) {
	p := start(t, platform.Options{})
	s := &story.Story{Platform: p, Out: t.Output()}
	if err := s.Tell(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func start(t *testing.T, o platform.Options) *platform.Platform {
	t.Helper()
	if testing.Short() {
		t.Skip("needs real API servers: not with -short")
	}
	o.Progress = t.Output()
	p, err := platform.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			p.LogTails(t)
		}
		// The test's own context is done by now.
		if err := p.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return p
}
