package resolve

import (
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gitbind.dev/konnector/internal/choice"
	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/completion"
	"gitbind.dev/konnector/internal/cli/output"
	"gitbind.dev/konnector/internal/cli/terminal"
	"gitbind.dev/konnector/internal/cli/usage"
)

type options struct {
	take        choice.Choice
	output      output.Flag
	yes, dryRun bool
	timeout     time.Duration
}

// Command is `kubectl gitbind resolve`.
func Command(cluster appcluster.Opener) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "resolve KIND/NAME",
		Short: "Decide about a claim that is held, or lost a conflict",
		Long: `Decide about a claim that is held, because cluster and Git say different things,
or because a removal needs a person's word; or about one whose version in the
cluster lost a conflict.

It shows what the object in the cluster and the file on main changed since both
last agreed, and which choices there are. On a terminal it asks; a script says
--take and --yes. Then it waits until the konnector has acted, and says what came
of it. The decision is about exactly what was shown: after another edit it counts
for nothing, and nothing happens.

  cluster  commit what the object says
  file     make the object what the file says, and keep what it says on a branch
  delete   let the removal go on
  release  let the object go without the service, and create it again
  keep     undo the removal of the file

It needs the right to change the claim, and none in the control plane or in Git.`,
		Example: `  # Show what is to decide, and decide
  kubectl gitbind resolve postgresqlinstances.anynines.com/orders -n team-a

  # Take what Git says, in a script
  kubectl gitbind resolve postgresqlinstance/orders -n team-a --take file --yes`,
		Args: oneClaim,
		RunE: func(cmd *cobra.Command, args []string) error {
			in, err := o.input(cmd, args[0])
			if err != nil {
				return err
			}
			if in.Cluster, err = cluster(); err != nil {
				return err
			}
			return Do(cmd.Context(), in)
		},
		ValidArgsFunction: completion.Undecided(cluster),
	}
	fs := cmd.Flags()
	fs.StringVar((*string)(&o.take), "take", "", "the decision: cluster, file, delete, release or keep")
	fs.BoolVarP(&o.yes, "yes", "y", false, "with --take: do not ask whether to go on")
	fs.BoolVar(&o.dryRun, "dry-run", false, "show, and change nothing")
	o.output.AddTo(cmd, output.Table, output.JSON, output.YAML)
	fs.DurationVar(&o.timeout, "timeout", time.Minute, "how long to wait until the konnector has acted; 0 for not at all")
	_ = cmd.RegisterFlagCompletionFunc("take", cobra.FixedCompletions(strings.Fields(names(choice.All(), " ")), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func oneClaim(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return errors.New("name one claim: kubectl gitbind resolve KIND/NAME; kubectl gitbind get lists those that are held")
	}
	return nil
}

func (o *options) input(cmd *cobra.Command, name string) (in Input, err error) {
	in = Input{
		Name: name, Take: o.take, Yes: o.yes, DryRun: o.dryRun, Timeout: o.timeout,
		Terminal: terminal.Open(cmd.InOrStdin(), cmd.OutOrStdout()),
	}
	if err := check(o.take); err != nil {
		return in, err
	}
	if o.yes && o.take == "" {
		return in, usage.Errorf("--yes is for --take")
	}
	if err := usage.Exclusive(cmd.Flags(), "output", "take"); err != nil {
		return in, err
	}
	in.Format, err = o.output.Format()
	return in, err
}
