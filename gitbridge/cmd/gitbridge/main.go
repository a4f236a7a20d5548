// Command gitbridge is the control plane's agent: it brings claims from Git to
// the control plane, and what became of them back to Git.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"gitbind.dev/gitbridge/internal/app"
	"gitbind.dev/gitbridge/program"
)

func main() {
	program.RaiseProcs()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := app.NewCommand().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "gitbridge:", err)
		os.Exit(1)
	}
}
