package revoke

import (
	"context"

	"github.com/spf13/cobra"

	"gitbind.dev/konnector/internal/cli/command"
)

// Command is `kubectl gitbind revoke`.
func Command(env command.Env) *cobra.Command {
	var in Input
	c := command.New(env, &in.Call, &cobra.Command{
		Use:   "revoke",
		Short: "End the konnector's credential",
		Long: `End the credential with which a cluster's konnector reads and writes its
repository, at once: for a cluster that was lost, stolen or broken into. No service
is touched. Only the owner of the cluster may do it, that is the person who connected it.

To go on, "kubectl gitbind rotate" gives the konnector a new credential.`,
		Example: `  # The cluster of the current context
  kubectl gitbind revoke

  # A cluster that cannot be reached any more
  kubectl gitbind revoke --url https://gitbind.example.com --cluster-name prod`,
	})
	fs := c.Flags()
	c.BackendCluster(&in.Connection, &in.BackendURL, &in.ClusterRef)
	fs.BoolVar(&in.DryRun, "dry-run", false, "say what would be done, and change nothing")
	fs.BoolVarP(&in.Yes, "yes", "y", false, "do not ask whether to go on")
	c.SignInFlags()
	return c.Run(command.Cluster|command.SignIn, func(ctx context.Context) error { return Do(ctx, in) })
}
