//go:build !linux

package env

import "syscall"

// ChildAttributes keep a child from our terminal's signals, so that it is
// stopped in order. Nothing ends it when we are killed.
func ChildAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
