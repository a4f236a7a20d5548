package version

import (
	"github.com/spf13/cobra"

	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/output"
	"gitbind.dev/konnector/internal/cli/signin"
	"gitbind.dev/konnector/internal/cli/terminal"
)

// Command is `kubectl gitbind version`.
func Command(version string, cluster appcluster.Opener, signIn signin.Opener) *cobra.Command {
	var format output.Flag
	var own bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of the plugin, the konnector and the backend",
		Long: `Print the versions of this plugin, and, as far as there is a cluster and you may see
them, of the konnector that runs there (its image) and of the backends that it is
connected to. It signs nobody in.

As JSON and YAML it is an object with client, konnector and backends (connection,
url, version, problem).`,
		Example: "  kubectl gitbind version -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			in := Input{Client: version, Terminal: terminal.Open(cmd.InOrStdin(), cmd.OutOrStdout())}
			var err error
			if in.Format, err = format.Format(); err != nil {
				return err
			}
			if in.SignIn, err = signIn(); err != nil {
				return err
			}
			if c, err := cluster(); err == nil && !own {
				in.Cluster = c
			}
			return Do(cmd.Context(), in)
		},
	}
	cmd.Flags().BoolVar(&own, "client", false, "print the plugin's version only")
	format.AddTo(cmd, output.Table, output.JSON, output.YAML)
	return cmd
}
