package server

import "syscall"

// endWithUs has the kernel end a server with us, at once and in order: SIGQUIT is what
// PostgreSQL calls an immediate shutdown, which leaves nothing but a log to replay.
func endWithUs(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGQUIT }
