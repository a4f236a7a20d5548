package env

import "syscall"

// ChildAttributes keep a child from our terminal's signals, so that it is
// stopped in order, and end it with us.
func ChildAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
