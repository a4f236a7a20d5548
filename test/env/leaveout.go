package env

import (
	"os"
	"strings"
	"testing"
)

// Slow leaves a test out of `make test`: `make test-slow` runs those whose names
// have _Slow in them.
func Slow(t testing.TB) {
	t.Helper()
	mustBeFound(t, "_Slow", "make test-slow")
	if os.Getenv("GITBIND_TEST_SLOW") == "" {
		t.Skip("slow: make test-slow runs it")
	}
}

// NoRace leaves a test out of those with the race detector: one goroutine's work on much
// data, which takes it many times as long there and shows it nothing. `make test` runs
// those whose names have _NoRace in them without it.
func NoRace(t testing.TB) {
	t.Helper()
	mustBeFound(t, "_NoRace", "make test")
	if underRace {
		t.Skip("with the race detector: make test runs it without")
	}
}

// mustBeFound fails a test that a command would not find, by the part of its name that it
// looks for.
func mustBeFound(t testing.TB, part, command string) {
	t.Helper()
	if !strings.Contains(t.Name(), part) {
		t.Fatalf("this test has %s in its name, by which %s finds it", part, command)
	}
}
