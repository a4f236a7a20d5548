// Command postgres-operator serves the kinds of anynines' a8s operators with PostgreSQL
// servers of this machine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"gitbind.dev/test/postgres/operator"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "postgres-operator:", err)
		os.Exit(1)
	}
}

func run() error {
	// Not the flags of packages that this one imports.
	flags := flag.NewFlagSet("postgres-operator", flag.ContinueOnError)
	kubeconfig := flags.String("kubeconfig", "", "of the cluster whose kinds are served")
	var o operator.Options
	flags.StringVar(&o.Dir, "data-dir", "", "for data and backups; if this is root, others must be allowed to enter it")
	flags.StringVar(&o.HealthListen, "health-listen", "", "address where /readyz answers")
	if err := flags.Parse(os.Args[1:]); err != nil {
		return err
	}
	if o.Dir == "" {
		return errors.New("--data-dir is needed: a folder for data and backups")
	}
	logger, err := zap.NewProduction()
	if err != nil {
		return err
	}
	log.SetLogger(zapr.NewLogger(logger))
	if o.Config, err = clientcmd.BuildConfigFromFlags("", *kubeconfig); err != nil {
		return err
	}
	o.Config.QPS = -1
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	return operator.Run(ctx, o)
}
