package rotate

import (
	"time"

	"github.com/spf13/cobra"

	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/signin"
	"gitbind.dev/konnector/internal/cli/terminal"
)

// Command is `kubectl gitbind rotate`.
func Command(cluster appcluster.Opener, signIn signin.Opener) *cobra.Command {
	var in Input
	var flags signin.Flags
	cmd := &cobra.Command{
		Use:   "rotate",
		Short: "Replace the konnector's credential",
		Long: `Replace the credential with which this cluster's konnector reads and writes its
repository. Those before it end at once, open connections included, and the
konnector gets the new one: nothing that anybody ordered is touched. The konnector
renews its credential by itself before it expires; this is for one that others may
have seen. Only the owner of the cluster may do it, that is whoever connected it.`,
		Example: `  # Replace it, and wait until the konnector works with the new one
  kubectl gitbind rotate

  # In a pipeline, of one of several Connections
  kubectl gitbind rotate --connection prod --id-token-file /run/token`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
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
	}
	fs := cmd.Flags()
	fs.StringVar(&in.Connection, "connection", "", "name of the Connection, if the cluster has several")
	fs.BoolVar(&in.DryRun, "dry-run", false, "say what would be done, and change nothing")
	fs.DurationVar(&in.Timeout, "timeout", 2*time.Minute, "how long to wait for the konnector; 0 for not at all")
	flags.AddTo(fs)
	return cmd
}
