package diff

import (
	"context"

	"github.com/spf13/cobra"

	"gitbind.dev/konnector/internal/cli/command"
	"gitbind.dev/konnector/internal/cli/completion"
	"gitbind.dev/konnector/internal/cli/output"
	"gitbind.dev/konnector/internal/cli/usage"
)

// Command is `kubectl gitbind diff`.
func Command(env command.Env) *cobra.Command {
	var in Input
	c := command.New(env, &in.Call, &cobra.Command{
		Use:   "diff [KIND[/NAME]...]",
		Short: "Compare claims in the cluster with their files on main",
		Long: `Compare claims in the cluster with their files on main: what is there now (-), and
what main says it should be (+). KIND stands for all claims of an API; without names, all
claims are compared (-n limits them to one namespace). With -f, what would change if that file were merged.

Both are compared as the konnector does, with the schema's defaults filled in, so
what is only written otherwise is no difference.

It needs git on the PATH, and reads the repository as you (see log); not with -f.

Exit code: 0 nothing differs, 1 something does, more than 1 it could not be
compared. As JSON and YAML it is {"items": [...]}, each with claim, namespace, name,
path, only ("cluster" or "file", when the other side has none) and diff.`,
		Example: `  # What differs, everywhere
  kubectl gitbind diff

  # What a pull request would change
  kubectl gitbind diff -f bindings/postgresqlinstances.anynines.com/claims/team-a/orders.yaml`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: completion.Claims(env, 0),
	})
	c.Arguments(&in.Names)
	c.Flags().StringSliceVarP(&in.Files, "filename", "f", nil, "compare with these files, in the place of those on main; - is standard input")
	c.Output(&in.Format, output.Table, output.JSON, output.YAML, output.Name)
	c.SignInFlags()
	c.Check = func() error {
		if len(in.Names) > 0 && len(in.Files) > 0 {
			return usage.Errorf("-f names the claims itself: give names, or -f")
		}
		return nil
	}
	c.Trouble = trouble
	return c.Run(command.Cluster|command.SignIn, func(ctx context.Context) error { return Do(ctx, in) })
}
