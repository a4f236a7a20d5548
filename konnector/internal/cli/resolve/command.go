package resolve

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"gitbind.dev/konnector/internal/choice"
	"gitbind.dev/konnector/internal/cli/command"
	"gitbind.dev/konnector/internal/cli/completion"
	"gitbind.dev/konnector/internal/cli/output"
	"gitbind.dev/konnector/internal/cli/usage"
)

// Command is `kubectl gitbind resolve`.
func Command(env command.Env) *cobra.Command {
	var in Input
	c := command.New(env, &in.Call, &cobra.Command{
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

It needs the right to change the claim, and none in the control plane or in Git.

As JSON and YAML it is an object with claim, namespace, name, path, held, reason, message,
token, choices, kept (the branch with the object's version), changedBy, deleting, and as YAML
within it what the object says (cluster), what main says (file), and what both said last (base).`,
		Example: `  # Show what is to decide, and decide
  kubectl gitbind resolve postgresqlinstances.anynines.com/orders -n team-a

  # Take what Git says, in a script
  kubectl gitbind resolve postgresqlinstance/orders -n team-a --take file --yes`,
		Args:              command.Args(1, 1, "name one claim: kubectl gitbind resolve KIND/NAME; kubectl gitbind get lists those that are held"),
		ValidArgsFunction: completion.Undecided(env),
	})
	c.Argument(&in.Name)
	fs := c.Flags()
	fs.StringVar((*string)(&in.Take), "take", "", "the decision: cluster, file, delete, release or keep")
	c.Values("take", names(choice.All())...)
	fs.BoolVarP(&in.Yes, "yes", "y", false, "with --take: do not ask whether to go on")
	fs.BoolVar(&in.DryRun, "dry-run", false, "show, and change nothing")
	c.Output(&in.Format, output.Table, output.JSON, output.YAML)
	fs.DurationVar(&in.Timeout, "timeout", time.Minute, "how long to wait until the konnector has acted; 0 for not at all")
	c.Excludes("output", "take")
	c.Check = func() error {
		if in.Yes && in.Take == "" {
			return usage.Errorf("--yes is for --take")
		}
		return nil
	}
	return c.Run(command.Cluster, func(ctx context.Context) error { return Do(ctx, in) })
}
