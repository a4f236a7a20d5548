package get

import (
	"github.com/spf13/cobra"

	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/output"
)

// Command is `kubectl gitbind get`.
func Command(cluster appcluster.Opener) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "get",
		Short: "Show connections, bindings, claims, and what waits for a decision",
		Long: `Show what became of everything: the connections of this cluster, the bound APIs,
the claims in all namespaces that you may see (-n limits them to one), and the
files in the repository that were refused or have no object here, with the reason.

  READY    the service is ready, as its provider says
  APPLIED  the control plane has what the claim says
  COMMIT   the commit that holds the claim

Unknown is what the konnector has not looked at yet; while no konnector runs, that
is everything, and it says so. What waits for a person's decision stands below
the tables, with the command that shows it.`,
		Example: `  # Everything
  kubectl gitbind get

  # The claims of one namespace, with all columns
  kubectl gitbind get -n team-a -o wide`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			in := Input{Out: cmd.OutOrStdout(), Notes: cmd.ErrOrStderr()}
			var err error
			if in.Format, err = output.ParseFormat(format); err != nil {
				return err
			}
			if in.Cluster, err = cluster(); err != nil {
				return err
			}
			if in.Cluster.NamespaceGiven {
				in.Namespace = in.Cluster.Namespace
			}
			return Do(cmd.Context(), in)
		},
	}
	cmd.Flags().StringVarP(&format, "output", "o", "", "one of wide, json, yaml, name")
	return cmd
}
