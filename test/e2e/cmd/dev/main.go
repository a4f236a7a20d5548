// Command dev is what the Tiltfile runs: it starts the parts that are not ours, keeps
// a component running, and plays the people. Everything is in the folder that holds
// the program itself. It builds nothing of gitbind: that is for the Tiltfile.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"gitbind.dev/test/e2e/platform"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "dev:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	return newCommand(filepath.Dir(program)).ExecuteContext(ctx)
}

// A loop is the folder of one `tilt up`.
type loop struct {
	bin string // the components, and the ports
	dir string // data, logs and kubeconfigs
}

func newCommand(bin string) *cobra.Command {
	l := &loop{bin: bin, dir: filepath.Join(bin, "run")}
	root := &cobra.Command{
		Use: "dev", Short: "The steps of the local loop that the Tiltfile describes",
		SilenceUsage: true, SilenceErrors: true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	step := func(use, short string, do func(context.Context, *platform.Platform) error) *cobra.Command {
		return &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
			p, _, err := l.attach()
			if err != nil {
				return err
			}
			return do(cmd.Context(), p)
		}}
	}
	component := func(use, short string, do func(context.Context, string) error) *cobra.Command {
		return &cobra.Command{
			Use: use + " COMPONENT", Short: short, Args: cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
			ValidArgs: []string{backend, gitbridge, konnector},
			RunE:      func(cmd *cobra.Command, args []string) error { return do(cmd.Context(), args[0]) },
		}
	}
	root.AddCommand(
		&cobra.Command{
			Use: "ports", Short: "Choose free ports, and print them", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return l.printPorts(cmd.OutOrStdout()) },
		},
		&cobra.Command{
			Use: "up", Short: "Run two clusters, Crossplane and Dex, and install gitbind's manifests", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return l.up(cmd.Context(), cmd.OutOrStdout()) },
		},
		l.waitCommand(),
		component("run", "Run a component, and restart it when it was killed", l.run),
		component("kill", "Kill a component", l.kill),
		step("connect", "Alice connects the app cluster", connect),
		step("bind", "Alice binds PostgreSQL", bind),
		step("claim", "Dora orders a database with kubectl, and it becomes ready", claim),
		step("push", "Alice changes it with Git", push),
	)
	return root
}

func (l *loop) waitCommand() *cobra.Command {
	var atMost time.Duration
	cmd := &cobra.Command{
		Use: "wait", Short: "Wait until nothing of the loop runs any more", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), atMost)
			defer cancel()
			return l.wait(ctx)
		},
	}
	cmd.Flags().DurationVar(&atMost, "for", time.Minute, "how long at most")
	return cmd
}

// attach is the platform that another process of the loop has begun.
func (l *loop) attach() (*platform.Platform, ports, error) {
	chosen, err := l.readPorts()
	if err != nil {
		return nil, nil, err
	}
	p, err := platform.Attach(l.dir, l.bin, chosen[backend])
	return p, chosen, err
}
