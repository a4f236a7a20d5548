package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// lockFile is in the folder of repositories, and says nothing.
	lockFile = "lock"
	// lockEvery is how often a folder is tried that another process has.
	lockEvery = 200 * time.Millisecond
)

// Lock takes the folder of repositories for this process, and makes it where it is not there. It
// waits until no other process has it, or ctx ends: each of two would remove the locks of the
// other's pushes. A process that ends gives it back, however it ends.
func Lock(ctx context.Context, dir string, log *slog.Logger) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	// Of a folder itself, NFS tells other machines no locks.
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	told := false
	err = wait.PollUntilContextCancel(ctx, lockEvery, true, func(context.Context) (bool, error) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.EINTR):
			return false, nil
		case !errors.Is(err, syscall.EWOULDBLOCK):
			return true, err
		case !told:
			told = true
			log.Info("Waiting for another process to end: it has the folder of repositories", "gitDir", dir)
		}
		return false, nil
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", f.Name(), err), f.Close())
	}
	return func() { _ = f.Close() }, nil
}
