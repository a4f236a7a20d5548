package env

import "syscall"

// childAttributes keep a child from our terminal's signals, so that it is
// stopped in order, and end it with us.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
