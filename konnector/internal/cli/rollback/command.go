package rollback

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/clone"
	"gitbind.dev/konnector/internal/cli/completion"
	"gitbind.dev/konnector/internal/cli/signin"
	"gitbind.dev/konnector/internal/cli/terminal"
)

type options struct {
	yes, dryRun bool
	timeout     time.Duration
	signin      signin.Flags
}

// Command is `kubectl gitbind rollback`.
func Command(cluster appcluster.Opener, signIn signin.Opener) *cobra.Command {
	var o options
	cmd := &cobra.Command{
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
		Args: claimAndRevision,
		RunE: func(cmd *cobra.Command, args []string) error {
			in := Input{
				Name: args[0], Revision: args[1], Yes: o.yes, DryRun: o.dryRun, Timeout: o.timeout, Now: time.Now(),
				Terminal: terminal.Open(cmd.InOrStdin(), cmd.OutOrStdout()),
			}
			var err error
			if in.How, err = o.signin.How(cmd.InOrStdin()); err != nil {
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
		ValidArgsFunction: completion.ClaimAndRevision(cluster, signIn),
	}
	fs := cmd.Flags()
	fs.BoolVarP(&o.yes, "yes", "y", false, "do not ask whether to go on")
	fs.BoolVar(&o.dryRun, "dry-run", false, "show what would change, and change nothing")
	fs.DurationVar(&o.timeout, "timeout", time.Minute, "how long to wait until it is committed; 0 for not at all")
	o.signin.AddTo(fs)
	return cmd
}

func claimAndRevision(_ *cobra.Command, args []string) error {
	if len(args) != 2 {
		return errors.New("name a claim and a revision: kubectl gitbind rollback KIND/NAME REVISION; kubectl gitbind log KIND/NAME lists them")
	}
	return clone.CheckRevision(args[1])
}
