package completion

import (
	"context"

	"github.com/spf13/cobra"

	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/command"
	"gitbind.dev/konnector/internal/cli/controlplane"
	"gitbind.dev/konnector/internal/cli/output"
	"gitbind.dev/konnector/internal/cli/signin"
)

// Offers offers what the person may bind, as far as they are signed in.
func Offers(env command.Env) Func {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		name, _ := cmd.Flags().GetString("connection")
		offered := names(env, 0, func(ctx context.Context, c *appcluster.Cluster) []string { return offers(ctx, env, c, name) })
		return offered(cmd, args, toComplete)
	}
}

func offers(ctx context.Context, env command.Env, c *appcluster.Cluster, name string) []string {
	s, err := env.SignIn()
	if err != nil {
		return nil
	}
	connection, err := c.Connection(ctx, name)
	if err != nil {
		return nil
	}
	access := controlplane.Access{Cluster: c, SignIn: s, How: signin.How{Silent: true}}
	if _, _, err := access.Saved(ctx, connection); err != nil {
		return nil // nobody is signed in, so the backend need not be asked
	}
	backend, err := access.Of(ctx, connection)
	if err != nil {
		return nil
	}
	all, err := backend.Catalog(ctx)
	if err != nil {
		return nil
	}
	var out []string
	for _, o := range all {
		out = append(out, o.Name+"\t"+output.Line(o.Description))
	}
	return out
}
