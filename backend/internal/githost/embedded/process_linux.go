package embedded

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// limitProcess bounds the memory that a process and those that it starts allocate,
// each for itself, and the time of a processor that they take.
func limitProcess(pid int, memory uint64, cpu time.Duration) error {
	seconds := uint64(cpu.Seconds())
	err := errors.Join(
		// What is allocated, not what is mapped: a repository may be larger.
		unix.Prlimit(pid, unix.RLIMIT_DATA, &unix.Rlimit{Cur: memory, Max: memory}, nil),
		unix.Prlimit(pid, unix.RLIMIT_CPU, &unix.Rlimit{Cur: seconds, Max: seconds + 5}, nil),
	)
	if errors.Is(err, unix.ESRCH) {
		return nil // it has ended
	}
	return err
}
