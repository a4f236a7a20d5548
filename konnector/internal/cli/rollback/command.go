package rollback

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"gitbind.dev/konnector/internal/cli/clone"
	"gitbind.dev/konnector/internal/cli/command"
	"gitbind.dev/konnector/internal/cli/completion"
)

// Command is `kubectl gitbind rollback`.
func Command(env command.Env) *cobra.Command {
	var in Input
	c := command.New(env, &in.Call, &cobra.Command{
		Use:   "rollback KIND/NAME REVISION",
		Short: "Make a claim what it was at an earlier commit, as a new commit",
		Long: `Make a claim what its file on main said at an earlier commit: spec, and those labels
and annotations that travel. The change is shown first. The object in the cluster
is changed, and the konnector commits that, by you, as a new commit; nothing is
taken out of the history. A claim that was deleted is created again.

REVISION is a commit's hash, or the beginning of one, that "kubectl gitbind log"
shows for the claim, or ~1 for the version before the newest, ~2 for the one
before that. If the claim is changed while you look, nothing happens.

It needs the right to change the claim in this cluster and, like log, git on the
PATH and the right to read the repository.`,
		Example: `  # What would change
  kubectl gitbind rollback postgresqlinstances.anynines.com/orders ~1 -n team-a --dry-run

  # To a commit, in a script
  kubectl gitbind rollback postgresqlinstance/orders 4f1c2b3a -n team-a --yes`,
		Args:              command.Args(2, 2, "name a claim and a revision: kubectl gitbind rollback KIND/NAME REVISION; kubectl gitbind log KIND/NAME lists them"),
		ValidArgsFunction: completion.ClaimAndRevision(env),
	})
	fs := c.Flags()
	fs.BoolVarP(&in.Yes, "yes", "y", false, "do not ask whether to go on")
	fs.BoolVar(&in.DryRun, "dry-run", false, "show what would change, and change nothing")
	fs.DurationVar(&in.Timeout, "timeout", time.Minute, "how long to wait until it is committed; 0 for not at all")
	c.SignInFlags()
	var names []string
	c.Arguments(&names)
	c.Check = func() error {
		in.Name, in.Revision = names[0], names[1]
		return clone.CheckRevision(in.Revision)
	}
	return c.Run(command.Cluster|command.SignIn, func(ctx context.Context) error { return Do(ctx, in) })
}
