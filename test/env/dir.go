package env

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const temporaryPrefix = "gitbind-env-"

// makeDir makes the environment's directory and holds it until unlock.
func (e *Env) makeDir(dir string) error {
	e.temporary = dir == ""
	if e.temporary {
		removeLeftovers("", temporaryPrefix)
		var err error
		if dir, err = os.MkdirTemp("", temporaryPrefix); err != nil {
			return err
		}
	}
	var err error
	if e.Dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	for _, sub := range []string{"logs", "kubeconfigs"} {
		if err := os.MkdirAll(filepath.Join(e.Dir, sub), 0o700); err != nil {
			return err
		}
	}
	if e.unlock, err = tryLock(lockOf(e.Dir)); errors.Is(err, syscall.EWOULDBLOCK) {
		return fmt.Errorf("use %s: another environment runs there", e.Dir)
	}
	if err != nil {
		return err
	}
	// One that was killed has left it.
	return os.RemoveAll(filepath.Join(e.Dir, attachFile))
}

// Shared makes a temporary directory that every user of the machine may enter, though
// not list, for programs that refuse to run as root. Stop removes it.
func (e *Env) Shared() (string, error) {
	dir, remove, err := MkdirTemp("", temporaryPrefix)
	if err != nil {
		return "", err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.shared = append(e.shared, remove)
	return dir, os.Chmod(dir, 0o711)
}

// MkdirTemp is os.MkdirTemp for a directory that is removed also where the process is
// killed before it does that: by a later call with the same parent and prefix.
func MkdirTemp(parent, prefix string) (dir string, remove func() error, err error) {
	removeLeftovers(parent, prefix)
	if dir, err = os.MkdirTemp(parent, prefix); err != nil {
		return "", nil, err
	}
	unlock, err := tryLock(lockOf(dir))
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return dir, func() error {
		defer unlock()
		return os.RemoveAll(dir)
	}, nil
}

// removeLeftovers removes the temporary directories of processes that were killed: that
// of an environment holds a few hundred megabytes.
func removeLeftovers(parent, prefix string) {
	dirs, _ := filepath.Glob(filepath.Join(cmp.Or(parent, os.TempDir()), prefix+"*"))
	for _, dir := range dirs {
		// A young one may be about to be locked.
		if info, err := os.Stat(dir); err != nil || time.Since(info.ModTime()) < time.Minute {
			continue
		}
		if unlock, err := tryLock(lockOf(dir)); err == nil {
			os.RemoveAll(dir)
			unlock()
		}
	}
}

// lockOf is the lock of a directory.
func lockOf(dir string) string { return filepath.Join(dir, "lock") }

// tryLock takes a lock, which the kernel releases with the process. The error is
// EWOULDBLOCK when somebody else holds it, or this process by an earlier call.
func tryLock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}
