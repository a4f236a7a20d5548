package approve

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"gitbind.dev/konnector/internal/cli/command"
	"gitbind.dev/konnector/internal/cli/output"
)

// Command is `kubectl gitbind approve`.
func Command(env command.Env) *cobra.Command {
	var in Input
	c := command.New(env, &in.Call, &cobra.Command{
		Use:   "approve",
		Short: "List what waits for an approval, and approve it",
		Long: `List what waits for a person's approval, and approve it.

In an app cluster these are a main that does not continue the history that was
accepted, removals that are too many at once, and newer definitions of APIs that
claims may break with. On a control plane they are the first two, for each cluster,
and services that were lost. Each agent asks for its own
approval; a removal that was approved in the app cluster is not asked for again.

An approval names the commit that was looked at, so that it is for nothing that
comes later. Whatever is about to be deleted, or recreated empty, is listed by
name before you are asked. On a control plane the names are read from the
repository, with the Secret gitbind-bridge of the cluster's namespace.

As JSON and YAML it is {"holders": [...]}, each with holder, name, and what waits: main;
removalsHeld, message and removals; allLost, lost; schema (removals and lost are lists, of
claim, path, reason, commit and message). What could not be seen is in note.`,
		Example: `  # What waits, in the cluster of the current context
  kubectl gitbind approve

  # Let the removals go on that main has at a commit
  kubectl gitbind approve --removals 4f1c2b3a9d8e7f60514233445566778899aabbcc

  # Accept a main that was rewritten or restored
  kubectl gitbind approve --main 4f1c2b3a9d8e7f60514233445566778899aabbcc

  # Install a newer definition of an API, though claims may break with it
  kubectl gitbind approve --schema 4f1c2b3a9d

  # On a control plane: recreate a lost service, though it will be empty; a folder
  # stands for all in it
  kubectl gitbind approve --cluster k3x9d2abqwzr4t6m \
    --recreate-empty bindings/postgresqlinstances.anynines.com/claims/team-a/orders.yaml`,
	})
	fs := c.Flags()
	fs.StringVar(&in.Main, "main", "", "accept main as it is at this commit")
	fs.StringVar(&in.Removals, "removals", "", "let go what main lacks at this commit, and what is being deleted")
	fs.StringVar(&in.Schema, "schema", "", "install the newer definition of an API that has this hash")
	fs.StringSliceVar(&in.RecreateEmpty, "recreate-empty", nil, "recreate the lost service of this path on main, or all in a folder; they will be empty")
	fs.StringVar(&in.Connection, "connection", "", "only this Connection, by name")
	fs.StringVar(&in.ClusterBinding, "cluster", "", "only this ClusterBinding, by name (the cluster's id)")
	c.CAFile(&in.CABundle, "on a control plane: trust the certificates in this PEM file, beside the system's, at the Git host")
	fs.BoolVarP(&in.Yes, "yes", "y", false, "do not ask whether to go on")
	fs.BoolVar(&in.DryRun, "dry-run", false, "show what would be approved, and change nothing")
	c.Output(&in.Format, output.Table, output.JSON, output.YAML)
	fs.DurationVar(&in.Timeout, "timeout", time.Minute, "how long to wait until it took effect; 0 for not at all")
	c.Excludes("output", "main", "removals", "schema", "recreate-empty")
	c.Excludes("connection", "cluster")
	c.Check = func() error { return check(in.Approval) }
	return c.Run(command.Cluster, func(ctx context.Context) error { return Do(ctx, in) })
}
