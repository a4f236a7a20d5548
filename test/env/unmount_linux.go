package env

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
)

// unmountBelow unmounts all that is mounted below a folder.
func unmountBelow(dir string) error {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return err
	}
	var below []string
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) > 1 && strings.HasPrefix(fields[1], dir+"/") {
			below = append(below, fields[1])
		}
	}
	var errs []error
	for _, at := range slices.Backward(below) {
		if err := syscall.Unmount(at, syscall.MNT_DETACH); err != nil {
			errs = append(errs, fmt.Errorf("unmount %s: %w", at, err))
		}
	}
	return errors.Join(errs...)
}
