package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"gitbind.dev/test/env"
)

func newCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "testenv",
		Short: "Real API servers, Crossplane and Dex on this machine, without containers",
		Long: `testenv builds and starts what gitbind is tried and tested against: Kubernetes
clusters (etcd, API server, controller manager; no nodes), Crossplane with a
composition function and provider-kubernetes, and Dex. Everything listens on free
ports of 127.0.0.1 (only Crossplane's probes and metrics, which can be told no
address, listen on all). Nothing outlives the command, and etcd does not wait for
the disk: it is no place for data that matter.

The parts are built from source, once, into the user's cache directory. That
takes a quarter of an hour on two cores and needs Go, git and a C compiler.`,
		SilenceUsage:  true,
		SilenceErrors: true,

		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	cmd.AddCommand(newBuildCommand(), newPathCommand(), newUpCommand())
	return cmd
}

func newBuildCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "build",
		Short: "Build the parts that are not built yet",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := env.Build(cmd.Context(), cmd.OutOrStdout()); err != nil {
				return err
			}
			dir, err := env.CacheDir()
			if err != nil {
				return err
			}
			cmd.Println("The parts are in", dir)
			return nil
		},
	}
}

func newPathCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "path PART",
		Short:   "Build one part, if it is not built yet, and print the path of its program",
		Example: `  testenv path tilt`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := env.BuildPart(cmd.Context(), args[0], cmd.ErrOrStderr())
			if err == nil {
				fmt.Fprintln(cmd.OutOrStdout(), path)
			}
			return err
		},
	}
}
