package bind

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"gitbind.dev/konnector/internal/cli/command"
	"gitbind.dev/konnector/internal/cli/completion"
	"gitbind.dev/konnector/internal/cli/output"
)

// Command is `kubectl gitbind bind`.
func Command(env command.Env) *cobra.Command {
	var in Input
	c := command.New(env, &in.Call, &cobra.Command{
		Use:   "bind NAME...",
		Short: "Make an API of the control plane an API of this cluster",
		Long: `Make an API that the control plane offers an API of this cluster. NAME is an
offer's, as in "kubectl gitbind catalog", or, where it has one offer, the API's:
<plural>.<group>. Several are bound at once, in the time of one.

The control plane grants the API to this cluster, if you may bind it. With your
own rights in this cluster, the konnector gets those on this one API, and users
are named as the authors of what they change. Who may edit (or view) a namespace
may then edit (or view) the API's objects in it; --no-aggregate leaves that to
you.

With -o yaml the control plane grants the API, and what would be applied to this
cluster is printed in the place of being applied: commit it where your other
manifests are. The konnector does the rest when it is applied, in any order.`,
		Example: `  # Bind one
  kubectl gitbind bind postgresql

  # Several, one of them by the API's name
  kubectl gitbind bind backup postgresqlinstances.anynines.com

  # What would that do? It changes nothing
  kubectl gitbind bind postgresql --dry-run

  # For a GitOps tool to apply
  kubectl gitbind bind postgresql -o yaml > postgresql-binding.yaml`,
		Args:              command.Args(1, -1, "name what to bind: kubectl gitbind bind NAME; kubectl gitbind catalog lists it"),
		ValidArgsFunction: completion.Offers(env),
	})
	c.Arguments(&in.Names)
	fs := c.Flags()
	fs.StringVar(&in.Connection, "connection", "", "name of the Connection, if the cluster has several")
	fs.BoolVar(&in.NoAggregate, "no-aggregate", false, "do not add the API to the cluster's roles view, edit and admin")
	fs.BoolVar(&in.DryRun, "dry-run", false, "show what would be done, and change nothing, neither here nor in the control plane")
	c.Output(&in.Format, output.Table, output.YAML)
	fs.DurationVar(&in.Timeout, "timeout", 2*time.Minute, "how long to wait for that, for each API")
	c.NoWait(&in.Timeout, "do not wait until the API can be used")
	c.Excludes("no-wait", "dry-run", "output")
	c.SignInFlags()
	return c.Run(command.Cluster|command.SignIn, func(ctx context.Context) error { return Do(ctx, in) })
}
