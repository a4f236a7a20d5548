//go:build unix

package clone

import (
	"os/exec"
	"syscall"
)

// stop says how a command ends with its context. One that runs alone has no
// terminal, so that ssh cannot ask either, and ends with all its children. One
// that may ask stays in the person's foreground: elsewhere it would be halted for
// reading from their terminal.
func stop(cmd *exec.Cmd, alone bool) {
	if !alone {
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		return
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
}
