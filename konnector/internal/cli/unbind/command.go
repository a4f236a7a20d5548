package unbind

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/completion"
	"gitbind.dev/konnector/internal/cli/terminal"
	"gitbind.dev/konnector/internal/cli/usage"
)

type options struct {
	claims              string
	dryRun, yes, noWait bool
	timeout             time.Duration
}

// Command is `kubectl gitbind unbind`.
func Command(cluster appcluster.Opener) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "unbind NAME...",
		Short: "Take an API of the control plane out of this cluster",
		Long: `Take an API that was bound out of this cluster again: its definition, the rights
on it, and the grant in the control plane. NAME is the API's, <plural>.<group>, its
plural, or the offer's.

An API that has claims is not unbound before you say what becomes of them:

  --claims=orphan   they go from this cluster; their files on main and their
                    services stay, and come back when the API is bound again
  --claims=delete   their services are deleted, with what is in them

What goes is shown before you are asked. The konnector does the work: if this
command is interrupted, it goes on, and the same command watches it again.`,
		Example: `  # What would go?
  kubectl gitbind unbind postgresql --dry-run

  # Let the services live on without this cluster
  kubectl gitbind unbind postgresql --claims=orphan

  # In a script, with all of its services
  kubectl gitbind unbind postgresqlinstances.anynines.com --claims=delete --yes`,
		Args: names,
		RunE: func(cmd *cobra.Command, args []string) error {
			in, err := o.input(cmd, args)
			if err != nil {
				return err
			}
			if in.Cluster, err = cluster(); err != nil {
				return err
			}
			return Do(cmd.Context(), in)
		},
		ValidArgsFunction: completion.Bindings(cluster, 0),
	}
	fs := cmd.Flags()
	fs.StringVar(&o.claims, "claims", "", "what becomes of the API's claims: orphan or delete")
	fs.BoolVar(&o.dryRun, "dry-run", false, "show what would go, and change nothing")
	fs.BoolVarP(&o.yes, "yes", "y", false, "do not ask whether to go on")
	fs.BoolVar(&o.noWait, "no-wait", false, "do not wait until it is done")
	fs.DurationVar(&o.timeout, "timeout", 5*time.Minute, "how long to wait for that, for each API")
	_ = cmd.RegisterFlagCompletionFunc("claims", cobra.FixedCompletions([]string{"orphan", "delete"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func names(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return errors.New("name what to unbind: kubectl gitbind unbind NAME; kubectl gitbind get lists what is bound")
	}
	return nil
}

func (o *options) input(cmd *cobra.Command, names []string) (in Input, err error) {
	in = Input{
		Names: names, DryRun: o.dryRun, Yes: o.yes, Timeout: o.timeout,
		Terminal: terminal.Open(cmd.InOrStdin(), cmd.OutOrStdout()), Now: time.Now,
	}
	if err := usage.Exclusive(cmd.Flags(), "no-wait", "timeout"); err != nil {
		return in, err
	}
	if o.noWait {
		in.Timeout = 0
	}
	switch o.claims {
	case "":
	case "orphan":
		in.Claims = v1alpha1.DeletionOrphan
	case "delete":
		in.Claims = v1alpha1.DeletionDelete
	default:
		return in, usage.Errorf("--claims %q: it is one of orphan, delete", o.claims)
	}
	return in, nil
}
