package env

import (
	"os/exec"
	"runtime"
)

// A spawner starts child processes that the kernel ends when this process ends,
// however that happens (on Linux; elsewhere they outlive a SIGKILL).
//
// The kernel ties this to the thread that started the child, not to the
// process, and Go ends threads as it likes. So all children are started by one
// goroutine that holds its thread for as long as there are children.
type spawner struct {
	requests chan spawnRequest
}

type spawnRequest struct {
	cmd    *exec.Cmd
	result chan<- error
}

func newSpawner() *spawner {
	s := &spawner{requests: make(chan spawnRequest)}
	go func() {
		// Never unlocked: the thread ends with the goroutine.
		runtime.LockOSThread()
		for r := range s.requests {
			r.result <- r.cmd.Start()
		}
	}()
	return s
}

func (s *spawner) start(cmd *exec.Cmd) error {
	result := make(chan error)
	s.requests <- spawnRequest{cmd, result}
	return <-result
}

// close ends the thread, and with it every child that still runs.
func (s *spawner) close() { close(s.requests) }
