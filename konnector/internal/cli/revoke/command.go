package revoke

import (
	"context"

	"github.com/spf13/cobra"

	"gitbind.dev/konnector/internal/cli/command"
	"gitbind.dev/konnector/internal/cli/usage"
)

// Command is `kubectl gitbind revoke`.
func Command(env command.Env) *cobra.Command {
	var in Input
	c := command.New(env, &in.Call, &cobra.Command{
		Use:   "revoke",
		Short: "End the konnector's credential",
		Long: `End the credential with which a cluster's konnector reads and writes its
repository, at once: for a cluster that was lost, stolen or broken into. No service
is touched. Only the owner of the cluster may do it, that is whoever connected it.

To go on, "kubectl gitbind rotate" gives the konnector a new credential.`,
		Example: `  # The cluster of the current context
  kubectl gitbind revoke

  # A cluster that cannot be reached any more
  kubectl gitbind revoke --url https://gitbind.example.com --cluster-name prod`,
	})
	fs := c.Flags()
	c.Backend(&in.Connection, &in.BackendURL)
	fs.StringVar(&in.ClusterRef, "cluster-name", "", "with --url: the id or the name of the cluster there")
	fs.BoolVar(&in.DryRun, "dry-run", false, "say what would be done, and change nothing")
	fs.BoolVarP(&in.Yes, "yes", "y", false, "do not ask whether to go on")
	c.SignInFlags()
	c.Check = func() error {
		if (in.BackendURL == "") != (in.ClusterRef == "") {
			return usage.Errorf("--url and --cluster-name are for each other")
		}
		return nil
	}
	return c.Run(command.Cluster|command.SignIn, func(ctx context.Context) error { return Do(ctx, in) })
}
