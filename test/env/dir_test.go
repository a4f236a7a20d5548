package env

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestOneEnvironmentPerDirectory(t *testing.T) {
	dir := t.TempDir()
	first, second := &Env{}, &Env{}
	fatal(t, first.makeDir(dir))
	if err := second.makeDir(dir); err == nil || !strings.Contains(err.Error(), "another environment runs there") {
		t.Errorf("got %v, want a refusal", err)
	}
	first.unlock()
	fatal(t, second.makeDir(dir))
	second.unlock()
}

func TestASharedDirectoryMayBeEnteredByAllAndGoesWithTheEnvironment(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	e := &Env{spawner: NewSpawner()}
	fatal(t, e.makeDir(""))
	dir, err := e.Shared()
	fatal(t, err)
	info, err := os.Stat(dir)
	fatal(t, err)
	if got := info.Mode().Perm(); got != 0o711 {
		t.Errorf("its mode is %o, want 711", got)
	}
	then := time.Now().Add(-time.Hour)
	fatal(t, os.Chtimes(dir, then, then))
	removeLeftovers("", temporaryPrefix)
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("it was taken for one that was left: %v", err)
	}
	fatal(t, e.Stop(t.Context()))
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("after the stop: %v, want it gone", err)
	}
}

func TestLeftoversAreRemoved(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	temporary := func(age time.Duration) string {
		e := &Env{}
		fatal(t, e.makeDir(""))
		t.Cleanup(e.unlock)
		then := time.Now().Add(-age)
		fatal(t, os.Chtimes(e.Dir, then, then))
		return e.Dir
	}
	inUse := temporary(time.Hour)
	abandoned := filepath.Join(os.TempDir(), temporaryPrefix+"abandoned")
	fatal(t, os.Mkdir(abandoned, 0o700))
	then := time.Now().Add(-time.Hour)
	fatal(t, os.Chtimes(abandoned, then, then))
	others := filepath.Join(os.TempDir(), "of-somebody-else")
	fatal(t, os.Mkdir(others, 0o700))

	removeLeftovers("", temporaryPrefix)
	if _, err := os.Stat(abandoned); !os.IsNotExist(err) {
		t.Errorf("the abandoned directory is still there: %v", err)
	}
	for _, dir := range []string{inUse, others} {
		if _, err := os.Stat(dir); err != nil {
			t.Error(err)
		}
	}
}

func TestADirectoryThatWasLeftGoesWhenTheNextOfItsKindIsMade(t *testing.T) {
	parent := t.TempDir()
	held, remove, err := MkdirTemp(parent, "kind-")
	fatal(t, err)
	left, another := filepath.Join(parent, "kind-left"), filepath.Join(parent, "another-left")
	then := time.Now().Add(-time.Hour)
	for _, dir := range []string{held, left, another} {
		fatal(t, os.MkdirAll(dir, 0o700))
		fatal(t, os.Chtimes(dir, then, then))
	}
	next, removeNext, err := MkdirTemp(parent, "kind-")
	fatal(t, err)
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Errorf("it is still there: %v", err)
	}
	for _, dir := range []string{held, another, next} {
		if _, err := os.Stat(dir); err != nil {
			t.Error(err)
		}
	}
	fatal(t, remove())
	fatal(t, removeNext())
	if _, err := os.Stat(held); !os.IsNotExist(err) {
		t.Errorf("it was not removed: %v", err)
	}
}
