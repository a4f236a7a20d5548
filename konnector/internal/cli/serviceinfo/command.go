package serviceinfo

import (
	"context"

	"github.com/spf13/cobra"

	"gitbind.dev/konnector/internal/cli/command"
	"gitbind.dev/konnector/internal/cli/completion"
)

// Command is `kubectl gitbind service-info`.
func Command(env command.Env) *cobra.Command {
	in := Input{kubectl: []string{"kubectl"}}
	c := command.New(env, &in.Call, &cobra.Command{
		Use: "service-info KIND/NAME", Aliases: []string{"connect-info"},
		Short: "Show how to connect to a service, without its password",
		Long: `Show how to connect to a service: host, port, database and user, as the Secrets say
that the control plane delivered for the claim or for what belongs to it, as a
ServiceBinding to its instance; how a Pod gets them; and for PostgreSQL a line for
the shell that takes the password from the Secret.

Passwords, and URIs that have one, are never shown. It reads the Secrets with your own
rights. Where there is none yet, it says what the claim waits for, or how to order
credentials.`,
		Example: `  # Of an instance, by what belongs to it
  kubectl gitbind service-info postgresqlinstance/orders -n team-a

  # Of one ServiceBinding
  kubectl gitbind service-info servicebinding/orders -n team-a`,
		Args:              command.Args(1, 1, "name one claim: kubectl gitbind service-info KIND/NAME; kubectl gitbind get claims lists them"),
		ValidArgsFunction: completion.Claims(env, 1),
	})
	c.Argument(&in.Name)
	c.Check = func() error {
		// What is printed for the shell is to reach the same cluster.
		for _, name := range []string{"kubeconfig", "context"} {
			if f := c.Flag(name); f != nil && f.Changed {
				in.kubectl = append(in.kubectl, "--"+name, quote(f.Value.String()))
			}
		}
		return nil
	}
	return c.Run(command.Cluster, func(ctx context.Context) error { return Do(ctx, in) })
}
