package env

import (
	"context"
	"os"
	"testing"
)

// StartForTest starts an environment that ends with the test, and skips the
// test under -short. When the test fails it logs the end of each part's log.
func StartForTest(t testing.TB, o Options) *Env {
	t.Helper()
	if testing.Short() {
		t.Skip("needs real API servers: not with -short")
	}
	e, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			e.LogTails(t)
		}
		// The test's own context is done by now.
		if err := e.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return e
}

// LogTails logs the end of each process' log.
func (e *Env) LogTails(t testing.TB) {
	for _, p := range e.Processes() {
		if log, err := os.ReadFile(p.LogPath); err == nil {
			t.Logf("the end of %s's log:\n%s", p.Name, indent(lastLines(log, 15)))
		}
	}
}
