package env

import (
	"os/exec"
	"runtime"
)

// A Spawner starts child processes that the kernel ends when this process ends,
// however that happens (on Linux; elsewhere they outlive a SIGKILL).
//
// The kernel ties this to the thread that started the child, not to the
// process, and Go ends threads as it likes. So all children are started by one
// goroutine that holds its thread for as long as there are children.
type Spawner struct {
	requests chan spawnRequest
}

type spawnRequest struct {
	cmd    *exec.Cmd
	result chan<- error
}

// NewSpawner is one without children. Close ends it.
func NewSpawner() *Spawner {
	s := &Spawner{requests: make(chan spawnRequest)}
	go func() {
		// Never unlocked: the thread ends with the goroutine.
		runtime.LockOSThread()
		for r := range s.requests {
			r.result <- r.cmd.Start()
		}
	}()
	return s
}

// Start starts a command whose SysProcAttr are ChildAttributes.
func (s *Spawner) Start(cmd *exec.Cmd) error {
	result := make(chan error)
	s.requests <- spawnRequest{cmd, result}
	return <-result
}

// Close ends the thread, and with it every child that still runs.
func (s *Spawner) Close() { close(s.requests) }
