package env

import (
	"strings"
	"testing"
)

// NoRace leaves a test out of those with the race detector: one goroutine's work on much
// data, which takes it many times as long there and shows it nothing. `make test` runs
// those whose names have _NoRace in them without it.
func NoRace(t testing.TB) {
	t.Helper()
	if !strings.Contains(t.Name(), "_NoRace") {
		t.Fatal("a test that the race detector leaves out has _NoRace in its name, by which make test finds it")
	}
	if underRace {
		t.Skip("with the race detector: make test runs it without")
	}
}
