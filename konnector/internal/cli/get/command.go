package get

import (
	"context"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"

	"gitbind.dev/konnector/internal/cli/command"
	"gitbind.dev/konnector/internal/cli/completion"
	"gitbind.dev/konnector/internal/cli/output"
	"gitbind.dev/konnector/internal/cli/usage"
)

// Command is `kubectl gitbind get`.
func Command(env command.Env) *cobra.Command {
	in := Input{Selector: labels.Everything()}
	c := command.New(env, &in.Call, &cobra.Command{
		Use:   "get",
		Short: "Show connections, bindings, claims, and what waits for a decision",
		Long: `Show what became of everything: the connections of this cluster, the bound APIs,
the claims in all namespaces that you may see (-n limits them to one), and the
files in the repository that were refused or have no object here, with the reason.

  OFFER    what the control plane calls the API, for people
  READY    the service is ready, as its provider says
  APPLIED  the control plane has what the claim says
  SECRET   the Secret that has its credentials, and since when it has been as it is
  COMMIT   the commit that holds the claim

Unknown is what the konnector has not looked at yet; while no konnector runs, that
is everything, and it says so. What waits for a person's decision stands below
the tables, with the command that shows it.

What belongs to another claim, as a backup to its instance, stands behind it.
What a Secret holds is never shown; "service-info" says how to use one.

As JSON and YAML it is a List of the objects, as kubectl prints several kinds.`,
		Example: `  # Everything
  kubectl gitbind get

  # The claims of one namespace, with all columns: also who changed them last
  kubectl gitbind get claims -n team-a -o wide

  # The clusters that you connected
  kubectl gitbind get clusters`,
	})
	c.Output(&in.Format)
	c.AddCommand(connectionsCommand(env), bindingsCommand(env), claimsCommand(env), clustersCommand(env))
	return c.Run(command.Cluster|command.SignIn, func(ctx context.Context) error { return Do(ctx, in) })
}

func connectionsCommand(env command.Env) *cobra.Command {
	var in Input
	c := command.New(env, &in.Call, &cobra.Command{
		Use: "connections [NAME...]", Aliases: []string{"connection"},
		Short:             "List the connections of this cluster",
		Example:           "  kubectl gitbind get connections -o wide",
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: completion.Connections(env, 0),
	})
	c.Arguments(&in.Names)
	c.Output(&in.Format)
	return c.Run(command.Cluster|command.SignIn, func(ctx context.Context) error { return connections(ctx, in) })
}

func bindingsCommand(env command.Env) *cobra.Command {
	var in Input
	c := command.New(env, &in.Call, &cobra.Command{
		Use: "bindings [NAME...]", Aliases: []string{"binding"},
		Short:             "List the APIs that are bound in this cluster",
		Example:           "  kubectl gitbind get bindings -o wide",
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: completion.Bindings(env, 0),
	})
	c.Arguments(&in.Names)
	selector(c, &in)
	c.Output(&in.Format)
	return c.Run(command.Cluster|command.SignIn, func(ctx context.Context) error { return bindings(ctx, in) })
}

func claimsCommand(env command.Env) *cobra.Command {
	var in Input
	c := command.New(env, &in.Call, &cobra.Command{
		Use: "claims [KIND[/NAME]...]", Aliases: []string{"claim"},
		Short: "List claims: their state, their commit, and who changed them last",
		Long: `List the claims of this cluster, in all namespaces that you may see, or in one with
-n: whether the service is ready, whether the control plane has what the claim
says, the commit that holds it, and of a service that is not ready what it waits for,
in its provider's words. With -o wide also its kind, all of these words, and also who made the last change to
its file on main and when, as far as git is on the PATH and you are signed in (not
with -w).

As JSON and YAML it is a List of the objects.`,
		Example: `  # Those of a team, and each change from now on
  kubectl gitbind get claims -n team-a -w

  # Those with a label, with all columns
  kubectl gitbind get claims -l app=shop -o wide`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: completion.Claims(env, 0),
	})
	c.Arguments(&in.Names)
	fs := c.Flags()
	selector(c, &in)
	everywhere := fs.BoolP("all-namespaces", "A", false, "in all namespaces, as without -n")
	fs.BoolVarP(&in.Watch, "watch", "w", false, "go on with each change, until interrupted")
	c.Output(&in.Format)
	return c.Run(command.Cluster|command.SignIn, func(ctx context.Context) error {
		if *everywhere && in.Cluster.NamespaceGiven {
			return usage.Errorf("-n and -A exclude each other")
		}
		return claims(ctx, in)
	})
}

// selector adds -l, and refuses what cannot be together with it or with names.
func selector(c *command.Command, in *Input) {
	text := c.Flags().StringP("selector", "l", "", "only those with these labels, for example team=a")
	c.MayBeEmpty = []string{"selector"}
	c.Check = func() (err error) {
		if in.Selector, err = labels.Parse(*text); err != nil {
			return usage.Errorf("--selector: %w", err)
		}
		if len(in.Names) > 0 && (*text != "" || in.Watch) {
			return usage.Errorf("give names, or --selector and --watch")
		}
		if in.Watch && in.Format != output.Table && in.Format != output.Wide {
			return usage.Errorf("--watch is for -o table and wide")
		}
		return nil
	}
}

func clustersCommand(env command.Env) *cobra.Command {
	var in Input
	var connection, url string
	c := command.New(env, &in.Call, &cobra.Command{
		Use: "clusters", Aliases: []string{"cluster"},
		Short: "List the clusters that you connected to the control plane",
		Long: `List the clusters that you connected to the control plane, and when the konnector of
each was seen last. THIS is the cluster of the current context.

As JSON and YAML it is {"items": [...]}, each with id, name, repositoryURL, connected
and lastSeen.`,
		Example: `  kubectl gitbind get clusters
  kubectl gitbind get clusters --url https://gitbind.example.com`,
	})
	c.Backend(&connection, &url)
	c.Output(&in.Format)
	c.SignInFlags()
	return c.Run(command.Cluster|command.SignIn, func(ctx context.Context) error { return clusters(ctx, in, url, connection) })
}
