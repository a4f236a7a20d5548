package revoke

import (
	"github.com/spf13/cobra"

	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/session"
	"gitbind.dev/konnector/internal/cli/signin"
	"gitbind.dev/konnector/internal/cli/terminal"
	"gitbind.dev/konnector/internal/cli/usage"
)

type options struct {
	Input
	url    string
	signin signin.Flags
}

// Command is `kubectl gitbind revoke`.
func Command(cluster appcluster.Opener, signIn signin.Opener) *cobra.Command {
	var o options
	cmd := &cobra.Command{
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
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			in, err := o.input(cmd)
			if err != nil {
				return err
			}
			if in.BackendURL == "" {
				if in.Cluster, err = cluster(); err != nil {
					return err
				}
			}
			if in.SignIn, err = signIn(); err != nil {
				return err
			}
			return Do(cmd.Context(), in)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&o.Connection, "connection", "", "name of the Connection, if the cluster has several")
	fs.StringVar(&o.url, "url", "", "the backend's URL, in the place of a Connection's")
	fs.StringVar(&o.ClusterRef, "cluster-name", "", "with --url: the id or the name of the cluster there")
	fs.BoolVar(&o.DryRun, "dry-run", false, "say what would be done, and change nothing")
	fs.BoolVarP(&o.Yes, "yes", "y", false, "do not ask whether to go on")
	o.signin.AddTo(fs)
	return cmd
}

func (o *options) input(cmd *cobra.Command) (in Input, err error) {
	in = o.Input
	in.Terminal = terminal.Open(cmd.InOrStdin(), cmd.OutOrStdout())
	if err := usage.Exclusive(cmd.Flags(), "connection", "url"); err != nil {
		return in, err
	}
	if (o.url == "") != (o.ClusterRef == "") {
		return in, usage.Errorf("--url and --cluster-name are for each other")
	}
	if o.url != "" {
		if in.BackendURL, err = session.BackendURL(o.url); err != nil {
			return in, err
		}
	}
	in.How, err = o.signin.How(cmd.InOrStdin())
	return in, err
}
