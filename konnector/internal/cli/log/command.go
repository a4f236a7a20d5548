package log

import (
	"context"

	"github.com/spf13/cobra"

	"gitbind.dev/konnector/internal/cli/command"
	"gitbind.dev/konnector/internal/cli/completion"
	"gitbind.dev/konnector/internal/cli/usage"
)

// Command is `kubectl gitbind log`.
func Command(env command.Env) *cobra.Command {
	var in Input
	c := command.New(env, &in.Call, &cobra.Command{
		Use:   "log KIND/NAME",
		Short: "Show a claim's history: who changed it, when, and what",
		Long: `Show a claim's history on main: each commit that touched its file, the newest
first, with its author, those who changed it in the same commit, who approved it in a
review of the control plane, and its time. A claim that was deleted and created again has one history.

It needs git on the PATH, and reads the repository as you: with your sign-in where
the repository is the control plane's own, which the owner of the cluster may
read, and those with whom it is shared (kubectl gitbind share); and with what your
git knows elsewhere. REV and COMMIT are what rollback takes.

As JSON and YAML it is {"items": [...]}, each with revision, commit, change
(created, changed, removed), author and coAuthors and committer (name, email),
approvedBy, time, subject, message, and with --patch diff.`,
		Example: `  # Who changed it, and when
  kubectl gitbind log postgresqlinstances.anynines.com/orders -n team-a

  # What the last three commits changed
  kubectl gitbind log postgresqlinstance/orders -n team-a -p --limit 3`,
		Args:              command.Args(1, 1, "name one claim: kubectl gitbind log KIND/NAME"),
		ValidArgsFunction: completion.Claims(env, 1),
	})
	c.Argument(&in.Name)
	fs := c.Flags()
	// -n is kubectl's, for the namespace.
	fs.IntVar(&in.Limit, "limit", 0, "show at most this many commits (0 for all)")
	fs.BoolVarP(&in.Patch, "patch", "p", false, "show what each commit changed")
	fs.BoolVar(&in.Oneline, "oneline", false, "show a commit's hash and subject only")
	c.Output(&in.Format)
	c.Excludes("patch", "oneline")
	c.Excludes("output", "oneline")
	c.SignInFlags()
	c.Check = func() error {
		if in.Limit < 0 {
			return usage.Errorf("--limit %d: give how many commits to show, or 0 for all", in.Limit)
		}
		return nil
	}
	return c.Run(command.Cluster|command.SignIn, func(ctx context.Context) error { return Do(ctx, in) })
}
