package completion

import (
	"context"

	"github.com/spf13/cobra"

	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/controlplane"
	"gitbind.dev/konnector/internal/cli/output"
	"gitbind.dev/konnector/internal/cli/session"
	"gitbind.dev/konnector/internal/cli/signin"
)

// Offers offers what the person may bind, as far as they are signed in.
func Offers(cluster appcluster.Opener, signIn signin.Opener) Func {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), patience)
		defer cancel()
		connection, _ := cmd.Flags().GetString("connection")
		c, err := cluster()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		s, err := signIn()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return without(offers(ctx, c, s, connection), args), cobra.ShellCompDirectiveNoFileComp
	}
}

func offers(ctx context.Context, c *appcluster.Cluster, s *signin.SignIn, name string) []string {
	connection, err := c.Connection(ctx, name)
	if err != nil {
		return nil
	}
	backend, err := session.BackendURL(connection.Spec.BackendURL)
	if err != nil {
		return nil
	}
	trusting, err := s.Trusting(connection.Spec.CABundle)
	if err != nil {
		return nil
	}
	// With a token in hand nobody is asked to sign in.
	token, _, err := trusting.Silent(ctx, backend)
	if err != nil {
		return nil
	}
	client, err := controlplane.OpenFor(ctx, connection, s, signin.How{Token: token})
	if err != nil {
		return nil
	}
	all, err := client.Catalog(ctx)
	if err != nil {
		return nil
	}
	var out []string
	for _, o := range all {
		out = append(out, o.Name+"\t"+output.Line(o.Description))
	}
	return out
}
