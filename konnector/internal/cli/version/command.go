package version

import (
	"context"

	"github.com/spf13/cobra"

	"gitbind.dev/konnector/internal/cli/command"
	"gitbind.dev/konnector/internal/cli/output"
)

// Command is `kubectl gitbind version`.
func Command(env command.Env) *cobra.Command {
	in := Input{Client: env.Version}
	c := command.New(env, &in.Call, &cobra.Command{
		Use:   "version",
		Short: "Print the versions of the plugin, the konnector and the backend",
		Long: `Print the versions of this plugin, and, as far as there is a cluster and you may see
them, of the konnector that runs there (its image, and whether that is being rolled out)
and of the backends that it is connected to. It signs nobody in.

As JSON and YAML it is an object with client, konnector, rollingOut and backends
(connection, url, version, problem).`,
		Example: "  kubectl gitbind version -o json",
	})
	own := c.Flags().Bool("client", false, "print the plugin's version only")
	c.Output(&in.Format, output.Table, output.JSON, output.YAML)
	return c.Run(0, func(ctx context.Context) (err error) {
		if *own {
			return Do(ctx, in)
		}
		if in.SignIn, err = env.SignIn(); err != nil {
			return err
		}
		// Where there is no cluster, there is nothing more to tell.
		in.Cluster, _ = env.Cluster()
		return Do(ctx, in)
	})
}
