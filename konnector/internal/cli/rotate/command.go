package rotate

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"gitbind.dev/konnector/internal/cli/command"
)

// Command is `kubectl gitbind rotate`.
func Command(env command.Env) *cobra.Command {
	var in Input
	c := command.New(env, &in.Call, &cobra.Command{
		Use:   "rotate",
		Short: "Replace the konnector's credential",
		Long: `Replace the credential with which this cluster's konnector reads and writes its
repository. Those before it end at once, open connections included, and the
konnector gets the new one: nothing that anybody ordered is touched. The konnector
renews its credential by itself before it expires; this is for one that others may
have seen. Only the owner of the cluster may do it, that is the person who connected it.`,
		Example: `  # Replace it, and wait until the konnector works with the new one
  kubectl gitbind rotate

  # In a pipeline, of one of several Connections
  kubectl gitbind rotate --connection prod --id-token-file /run/token`,
	})
	fs := c.Flags()
	fs.StringVar(&in.Connection, "connection", "", "name of the Connection, if the cluster has several")
	fs.BoolVar(&in.DryRun, "dry-run", false, "say what would be done, and change nothing")
	fs.DurationVar(&in.Timeout, "timeout", 2*time.Minute, "how long to wait for the konnector; 0 for not at all")
	c.SignInFlags()
	return c.Run(command.Cluster|command.SignIn, func(ctx context.Context) error { return Do(ctx, in) })
}
