// Command kubectl-gitbind is the kubectl plugin: with it on the PATH, `kubectl
// gitbind` works.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"gitbind.dev/gitbridge/version"
	"gitbind.dev/konnector/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second one ends it at once
	code := cli.Run(ctx, version.String(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
