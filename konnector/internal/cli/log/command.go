package log

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
	limit          int
	patch, oneline bool
	output         output.Flag
	signin         signin.Flags
}

// Command is `kubectl gitbind log`.
func Command(cluster appcluster.Opener, signIn signin.Opener) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "log KIND/NAME",
		Short: "Show a claim's history: who changed it, when, and what",
		Long: `Show a claim's history on main: each commit that touched its file, the newest
first, with its author, those who changed it in the same commit, and its time. A
claim that was deleted and created anew has one history.

It needs git on the PATH, and reads the repository as you: with your sign-in where
the repository is the control plane's own, which the owner of the cluster may
read, and with what your git knows elsewhere. REV and COMMIT are what rollback
takes.

As JSON and YAML it is {"items": [...]}, each with revision, commit, change
(created, changed, removed), author and coAuthors and committer (name, email), time,
subject, message, and with --patch diff.`,
		Example: `  # Who changed it, and when
  kubectl gitbind log postgresqlinstances.anynines.com/orders -n team-a

  # What the last three commits changed
  kubectl gitbind log postgresqlinstance/orders -n team-a -p --limit 3`,
		Args: oneClaim,
		RunE: func(cmd *cobra.Command, args []string) error {
			in, err := o.input(cmd, args[0])
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
		ValidArgsFunction: completion.Claims(cluster, 1),
	}
	fs := cmd.Flags()
	// -n is kubectl's, for the namespace.
	fs.IntVar(&o.limit, "limit", 0, "show at most this many commits (0 for all)")
	fs.BoolVarP(&o.patch, "patch", "p", false, "show what each commit changed")
	fs.BoolVar(&o.oneline, "oneline", false, "show a commit's hash and subject only")
	o.output.AddTo(cmd)
	o.signin.AddTo(fs)
	return cmd
}

func oneClaim(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return errors.New("name one claim: kubectl gitbind log KIND/NAME")
	}
	return nil
}

func (o *options) input(cmd *cobra.Command, name string) (in Input, err error) {
	in = Input{
		Name: name, Limit: o.limit, Patch: o.patch, Oneline: o.oneline, Now: time.Now(),
		Terminal: terminal.Open(cmd.InOrStdin(), cmd.OutOrStdout()),
	}
	if o.limit < 0 {
		return in, usage.Errorf("--limit %d: give how many commits to show, or 0 for all", o.limit)
	}
	for _, pair := range [][]string{{"patch", "oneline"}, {"output", "oneline"}} {
		if err := usage.Exclusive(cmd.Flags(), pair...); err != nil {
			return in, err
		}
	}
	if in.Format, err = o.output.Format(); err != nil {
		return in, err
	}
	in.How, err = o.signin.How(cmd.InOrStdin())
	return in, err
}
