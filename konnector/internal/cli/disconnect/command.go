package disconnect

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/completion"
	"gitbind.dev/konnector/internal/cli/signin"
	"gitbind.dev/konnector/internal/cli/terminal"
)

// Command is `kubectl gitbind disconnect`.
func Command(cluster appcluster.Opener, signIn signin.Opener) *cobra.Command {
	var in Input
	var flags signin.Flags
	cmd := &cobra.Command{
		Use:   "disconnect [CONNECTION]",
		Short: "End this cluster's connection to a control plane",
		Long: `End this cluster's connection to a control plane: its credential there, its Secret
and its Connection here. Unbind its APIs first; as long as one is bound this refuses,
and says which.

The repository and the cluster's place in the control plane stay, for its owner to
connect again. What connect installed stays, too, unless --all is given.`,
		Example: `  # What would go?
  kubectl gitbind disconnect --dry-run

  # With everything that connect installed
  kubectl gitbind disconnect --all --yes

  # From a control plane that does not exist any more
  kubectl gitbind disconnect --keep-credential`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return errors.New("give one Connection, or none where there is only one")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if len(args) == 1 {
				in.Name = args[0]
			}
			in.Terminal = terminal.Open(cmd.InOrStdin(), cmd.OutOrStdout())
			if in.How, err = flags.How(cmd.InOrStdin()); err != nil {
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
		ValidArgsFunction: completion.Connections(cluster, 1),
	}
	fs := cmd.Flags()
	fs.BoolVar(&in.All, "all", false, "remove gitbind's kinds, rights, policies and the konnector, too")
	fs.BoolVar(&in.KeepCredential, "keep-credential", false, "do not ask the control plane to end the credential")
	fs.BoolVar(&in.DryRun, "dry-run", false, "show what would go, and change nothing")
	fs.BoolVarP(&in.Yes, "yes", "y", false, "do not ask whether to go on")
	fs.DurationVar(&in.Timeout, "timeout", time.Minute, "how long to wait until the Connection is gone")
	flags.AddTo(fs)
	return cmd
}
