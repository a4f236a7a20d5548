package get

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"

	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/completion"
	"gitbind.dev/konnector/internal/cli/output"
	"gitbind.dev/konnector/internal/cli/session"
	"gitbind.dev/konnector/internal/cli/signin"
	"gitbind.dev/konnector/internal/cli/terminal"
	"gitbind.dev/konnector/internal/cli/usage"
)

// command is what get and its parts have in common.
type command struct {
	cluster appcluster.Opener
	signIn  signin.Opener
	output  output.Flag

	selector   string
	everywhere bool
	watch      bool
}

// Command is `kubectl gitbind get`.
func Command(cluster appcluster.Opener, signIn signin.Opener) *cobra.Command {
	c := &command{cluster: cluster, signIn: signIn}
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
the tables, with the command that shows it.

As JSON and YAML it is a List of the objects, as kubectl prints several kinds.`,
		Example: `  # Everything
  kubectl gitbind get

  # The claims of one namespace, with all columns: also who changed them last
  kubectl gitbind get claims -n team-a -o wide

  # The clusters that you connected
  kubectl gitbind get clusters`,
		Args: cobra.NoArgs,
		RunE: c.run(Do),
	}
	c.output.AddTo(cmd)
	cmd.AddCommand(connectionsCommand(cluster, signIn), bindingsCommand(cluster, signIn), claimsCommand(cluster, signIn), clustersCommand(cluster, signIn))
	return cmd
}

func connectionsCommand(cluster appcluster.Opener, signIn signin.Opener) *cobra.Command {
	c := &command{cluster: cluster, signIn: signIn}
	cmd := &cobra.Command{
		Use: "connections [NAME...]", Aliases: []string{"connection"},
		Short:             "List the connections of this cluster",
		Example:           "  kubectl gitbind get connections -o wide",
		Args:              cobra.ArbitraryArgs,
		RunE:              c.run(func(ctx context.Context, in Input) error { return in.connections(ctx) }),
		ValidArgsFunction: completion.Connections(cluster, 0),
	}
	c.output.AddTo(cmd)
	return cmd
}

func bindingsCommand(cluster appcluster.Opener, signIn signin.Opener) *cobra.Command {
	c := &command{cluster: cluster, signIn: signIn}
	cmd := &cobra.Command{
		Use: "bindings [NAME...]", Aliases: []string{"binding"},
		Short:             "List the APIs that are bound in this cluster",
		Example:           "  kubectl gitbind get bindings -o wide",
		Args:              cobra.ArbitraryArgs,
		RunE:              c.run(func(ctx context.Context, in Input) error { return in.bindings(ctx) }),
		ValidArgsFunction: completion.Bindings(cluster, 0),
	}
	cmd.Flags().StringVarP(&c.selector, "selector", "l", "", "only those with these labels, for example team=a")
	c.output.AddTo(cmd)
	return cmd
}

func claimsCommand(cluster appcluster.Opener, signIn signin.Opener) *cobra.Command {
	c := &command{cluster: cluster, signIn: signIn}
	cmd := &cobra.Command{
		Use: "claims [KIND[/NAME]...]", Aliases: []string{"claim"},
		Short: "List claims: their state, their commit, and who changed them last",
		Long: `List the claims of this cluster, in all namespaces that you may see, or in one with
-n: whether the service is ready, whether the control plane has what the claim
says, and the commit that holds it. With -o wide also who made the last change to
its file on main and when, as far as git is on the PATH and you are signed in (not
with -w).

As JSON and YAML it is a List of the objects.`,
		Example: `  # Those of a team, and each change from now on
  kubectl gitbind get claims -n team-a -w

  # Those with a label, with all columns
  kubectl gitbind get claims -l app=shop -o wide`,
		Args:              cobra.ArbitraryArgs,
		RunE:              c.run(func(ctx context.Context, in Input) error { return in.claimsOnly(ctx) }),
		ValidArgsFunction: completion.Claims(cluster, 0),
	}
	fs := cmd.Flags()
	fs.StringVarP(&c.selector, "selector", "l", "", "only those with these labels, for example team=a")
	fs.BoolVarP(&c.everywhere, "all-namespaces", "A", false, "in all namespaces, as without -n")
	fs.BoolVarP(&c.watch, "watch", "w", false, "go on with each change, until interrupted")
	c.output.AddTo(cmd)
	return cmd
}

func clustersCommand(cluster appcluster.Opener, signIn signin.Opener) *cobra.Command {
	c := &command{cluster: cluster, signIn: signIn}
	var b Backend
	var url string
	var flags signin.Flags
	cmd := &cobra.Command{
		Use: "clusters", Aliases: []string{"cluster"},
		Short: "List the clusters that you connected to the control plane",
		Long: `List the clusters that you connected to the control plane, and when the konnector of
each was seen last. THIS is the cluster of the current context.

As JSON and YAML it is {"items": [...]}, each with id, name, repositoryURL, connected
and lastSeen.`,
		Example: `  kubectl gitbind get clusters
  kubectl gitbind get clusters --url https://gitbind.example.com`,
		Args: cobra.NoArgs,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := usage.Exclusive(cmd.Flags(), "connection", "url"); err != nil {
			return err
		}
		in, err := c.input(cmd, args)
		if err != nil {
			return err
		}
		if b.How, err = flags.How(cmd.InOrStdin()); err != nil {
			return err
		}
		if url != "" {
			if b.URL, err = session.BackendURL(url); err != nil {
				return err
			}
		} else if in.Cluster, err = cluster(); err != nil {
			return err
		}
		return in.clusters(cmd.Context(), b)
	}
	fs := cmd.Flags()
	fs.StringVar(&b.Connection, "connection", "", "name of the Connection, if the cluster has several")
	fs.StringVar(&url, "url", "", "the backend's URL, in the place of a Connection's")
	c.output.AddTo(cmd)
	flags.AddTo(fs)
	return cmd
}

// input reads the flags, and asks no cluster.
func (c *command) input(cmd *cobra.Command, names []string) (in Input, err error) {
	in = Input{
		Names: names, Watch: c.watch, Notes: cmd.ErrOrStderr(), Now: time.Now(),
		Terminal: terminal.Open(cmd.InOrStdin(), cmd.OutOrStdout()),
	}
	if in.Format, err = c.output.Format(); err != nil {
		return in, err
	}
	if in.Selector, err = labels.Parse(c.selector); err != nil {
		return in, usage.Errorf("--selector: %w", err)
	}
	if len(names) > 0 && (c.selector != "" || c.watch) {
		return in, usage.Errorf("give names, or --selector and --watch")
	}
	if c.watch && in.Format != output.Table && in.Format != output.Wide {
		return in, usage.Errorf("--watch is for -o table and wide")
	}
	in.SignIn, err = c.signIn()
	return in, err
}

// run opens the cluster and does the work.
func (c *command) run(do func(context.Context, Input) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, names []string) error {
		in, err := c.input(cmd, names)
		if err != nil {
			return err
		}
		if in.Cluster, err = c.cluster(); err != nil {
			return err
		}
		if in.Cluster.NamespaceGiven {
			if c.everywhere {
				return usage.Errorf("-n and -A exclude each other")
			}
			in.Namespace = in.Cluster.Namespace
		}
		return do(cmd.Context(), in)
	}
}
