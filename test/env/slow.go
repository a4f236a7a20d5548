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
	if !strings.Contains(t.Name(), "_Slow") {
		t.Fatal("a slow test has _Slow in its name, by which make test-slow finds it")
	}
	if os.Getenv("GITBIND_TEST_SLOW") == "" {
		t.Skip("slow: make test-slow runs it")
	}
}
