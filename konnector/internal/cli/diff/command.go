package diff

import (
	"errors"

	"github.com/spf13/cobra"

	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/completion"
	"gitbind.dev/konnector/internal/cli/output"
	"gitbind.dev/konnector/internal/cli/signin"
	"gitbind.dev/konnector/internal/cli/terminal"
	"gitbind.dev/konnector/internal/cli/usage"
)

type options struct {
	files  []string
	output output.Flag
	signin signin.Flags
}

// Command is `kubectl gitbind diff`.
func Command(cluster appcluster.Opener, signIn signin.Opener) *cobra.Command {
	var o options
	cmd := &cobra.Command{
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
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			in, err := o.input(cmd, args)
			if err != nil {
				return &usage.Exit{Code: trouble, Err: err}
			}
			if in.Cluster, err = cluster(); err != nil {
				return &usage.Exit{Code: trouble, Err: err}
			}
			if in.SignIn, err = signIn(); err != nil {
				return &usage.Exit{Code: trouble, Err: err}
			}
			if in.Cluster.NamespaceGiven {
				in.Namespace = in.Cluster.Namespace
			}
			return Do(cmd.Context(), in)
		},
		ValidArgsFunction: completion.Claims(cluster, 0),
	}
	fs := cmd.Flags()
	fs.StringSliceVarP(&o.files, "filename", "f", nil, "compare with these files, in the place of those on main; - is standard input")
	o.output.AddTo(cmd, output.Table, output.JSON, output.YAML, output.Name)
	o.signin.AddTo(fs)
	return cmd
}

func (o *options) input(cmd *cobra.Command, names []string) (in Input, err error) {
	in = Input{
		Names: names, Files: o.files, In: cmd.InOrStdin(), Notes: cmd.ErrOrStderr(),
		Terminal: terminal.Open(cmd.InOrStdin(), cmd.OutOrStdout()),
	}
	if len(names) > 0 && len(o.files) > 0 {
		return in, &usage.Error{Err: errors.New("-f names the claims itself: give names, or -f")}
	}
	if in.Format, err = o.output.Format(); err != nil {
		return in, err
	}
	in.How, err = o.signin.How(cmd.InOrStdin())
	return in, err
}
