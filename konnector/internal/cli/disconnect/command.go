package disconnect

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"gitbind.dev/konnector/internal/cli/command"
	"gitbind.dev/konnector/internal/cli/completion"
)

// Command is `kubectl gitbind disconnect`.
func Command(env command.Env) *cobra.Command {
	var in Input
	c := command.New(env, &in.Call, &cobra.Command{
		Use:   "disconnect [CONNECTION]",
		Short: "End this cluster's connection to a control plane",
		Long: `End this cluster's connection to a control plane: its credential there, its Secret
and its Connection here. Unbind its APIs first; as long as one is bound this refuses,
and says which.

The repository and the cluster's place in the control plane stay, for its owner to
connect again. What connect installed stays, too, unless --all is given. That removes
nothing of a control plane: where one is in this cluster, the namespace stays.`,
		Example: `  # What would go?
  kubectl gitbind disconnect --dry-run

  # With everything that connect installed
  kubectl gitbind disconnect --all --yes

  # From a control plane that does not exist any more
  kubectl gitbind disconnect --keep-credential`,
		Args:              command.Args(0, 1, "give one Connection, or none where there is only one"),
		ValidArgsFunction: completion.Connections(env, 1),
	})
	c.Argument(&in.Name)
	fs := c.Flags()
	fs.BoolVar(&in.All, "all", false, "remove gitbind's kinds, rights, policies and the konnector, too")
	fs.BoolVar(&in.KeepCredential, "keep-credential", false, "do not ask the control plane to end the credential")
	fs.BoolVar(&in.DryRun, "dry-run", false, "show what would go, and change nothing")
	fs.BoolVarP(&in.Yes, "yes", "y", false, "do not ask whether to go on")
	fs.DurationVar(&in.Timeout, "timeout", time.Minute, "how long to wait until the Connection is gone")
	c.SignInFlags()
	return c.Run(command.Cluster|command.SignIn, func(ctx context.Context) error { return Do(ctx, in) })
}
