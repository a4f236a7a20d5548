// Package e2e tests all of gitbind from the outside, on real parts.
package e2e

import (
	"bytes"
	"cmp"
	"context"
	"log"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"gitbind.dev/test/e2e/platform"
	"gitbind.dev/test/e2e/story"
	"gitbind.dev/test/env"
	"gitbind.dev/test/scan"
)

// TestStory is what `make demo-once` tells, and what `make demo` says to try
// afterwards. Its components have the race detector.
func TestStory(t *testing.T) {
	t.Parallel()
	p := start(t, platform.Options{Postgres: true, Bin: buildRace(t)})
	s := &story.Story{Platform: p, Out: t.Output(), Scan: scan.New()}
	watchProcesses(t, s.Scan)
	if err := s.Tell(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Scan.Commands(); err != nil {
		t.Error(err)
	}
	try, err := s.WhatToTry(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dora := tryAll(t, p, try)
	t.Run("F11_from claims to composites without a new service", func(t *testing.T) { testMovedToComposites(t, p, dora) })
}

// bin has the components: built once for all tests of the package, in a folder without
// the race detector and one with it, which makes them several times slower.
var (
	bin        string
	buildPlain = builder("plain", platform.Build)
	buildRace  = builder("race", platform.BuildWithRaceDetector)
)

func builder(name string, build func(ctx context.Context, bin string) error) func(*testing.T) string {
	once := sync.OnceValue(func() error { return build(context.Background(), filepath.Join(bin, name)) })
	return func(t *testing.T) string {
		t.Helper()
		skipIfShort(t)
		if err := once(); err != nil {
			t.Fatal(err)
		}
		return filepath.Join(bin, name)
	}
}

func skipIfShort(t *testing.T) {
	if testing.Short() {
		t.Skip("needs real API servers: not with -short")
	}
}

func TestMain(m *testing.M) {
	var remove func() error
	var err error
	if bin, remove, err = env.MkdirTemp("", "gitbind-components-"); err != nil {
		log.Fatal(err)
	}
	code := m.Run()
	if err := remove(); err != nil {
		log.Print(err)
		code = 1
	}
	os.Exit(code)
}

// start starts a platform that ends with the test. A race that the detector saw in
// a component fails the test.
func start(t *testing.T, o platform.Options) *platform.Platform {
	t.Helper()
	skipIfShort(t)
	if o.Bin = cmp.Or(o.Bin, env.Built()); o.Bin == "" {
		o.Bin = buildPlain(t)
	}
	o.Progress = t.Output()
	p, err := platform.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, process := range p.Processes() {
			if text, err := os.ReadFile(process.LogPath); err == nil && bytes.Contains(text, []byte("WARNING: DATA RACE")) {
				t.Errorf("%s: a data race:\n%s", process.Name, text)
			}
		}
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
