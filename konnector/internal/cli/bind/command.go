package bind

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/completion"
	"gitbind.dev/konnector/internal/cli/output"
	"gitbind.dev/konnector/internal/cli/signin"
	"gitbind.dev/konnector/internal/cli/terminal"
	"gitbind.dev/konnector/internal/cli/usage"
)

type options struct {
	connection  string
	noAggregate bool
	noWait      bool
	dryRun      bool
	output      output.Flag
	timeout     time.Duration
	signin      signin.Flags
}

// Command is `kubectl gitbind bind`.
func Command(cluster appcluster.Opener, signIn signin.Opener) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "bind NAME...",
		Short: "Make an API of the control plane an API of this cluster",
		Long: `Make an API that the control plane offers an API of this cluster. NAME is an
offer's, as in "kubectl gitbind catalog", or the API's: <plural>.<group>.

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
		Args: names,
		RunE: func(cmd *cobra.Command, args []string) error {
			in, err := o.input(cmd, args)
			if err != nil {
				return err
			}
			if in.Cluster, err = cluster(); err != nil {
				return err
			}
			if in.SignIn, err = signIn(); err != nil {
				return err
			}
			return Do(cmd.Context(), in)
		},
		ValidArgsFunction: completion.Offers(cluster, signIn),
	}
	fs := cmd.Flags()
	fs.StringVar(&o.connection, "connection", "", "name of the Connection, if the cluster has several")
	fs.BoolVar(&o.noAggregate, "no-aggregate", false, "do not add the API to the cluster's roles view, edit and admin")
	fs.BoolVar(&o.dryRun, "dry-run", false, "show what would be done, and change nothing, neither here nor in the control plane")
	o.output.AddTo(cmd, output.Table, output.YAML)
	fs.BoolVar(&o.noWait, "no-wait", false, "do not wait until the API can be used")
	fs.DurationVar(&o.timeout, "timeout", 2*time.Minute, "how long to wait for that, for each API")
	o.signin.AddTo(fs)
	return cmd
}

func names(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return errors.New("name what to bind: kubectl gitbind bind NAME; kubectl gitbind catalog lists it")
	}
	return nil
}

func (o *options) input(cmd *cobra.Command, names []string) (in Input, err error) {
	in = Input{
		Connection: o.connection, Names: names, NoAggregate: o.noAggregate, Timeout: o.timeout,
		DryRun: o.dryRun, Terminal: terminal.Open(cmd.InOrStdin(), cmd.OutOrStdout()), Notes: cmd.ErrOrStderr(),
	}
	for _, other := range []string{"timeout", "dry-run", "output"} {
		if err := usage.Exclusive(cmd.Flags(), "no-wait", other); err != nil {
			return in, err
		}
	}
	if in.Format, err = o.output.Format(); err != nil {
		return in, err
	}
	if o.noWait {
		in.Timeout = 0
	}
	in.How, err = o.signin.How(cmd.InOrStdin())
	return in, err
}
