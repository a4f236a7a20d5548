//go:build !linux

package server

import "syscall"

// endWithUs does nothing: only Linux can end a server when we are killed.
func endWithUs(*syscall.SysProcAttr) {}
