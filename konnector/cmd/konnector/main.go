// Command konnector is gitbind's agent in an app cluster.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"gitbind.dev/gitbridge/program"
	"gitbind.dev/konnector/internal/agent/app"
)

func main() {
	program.RaiseProcs()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := app.Command().ExecuteContext(ctx)
	stop()
	if err != nil {
		os.Exit(1)
	}
}
