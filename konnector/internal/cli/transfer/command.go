package transfer

import (
	"context"

	"github.com/spf13/cobra"

	"gitbind.dev/konnector/internal/cli/command"
	"gitbind.dev/konnector/internal/cli/usage"
)

// Command is `kubectl gitbind transfer`.
func Command(env command.Env) *cobra.Command {
	var in Input
	c := command.New(env, &in.Call, &cobra.Command{
		Use:   "transfer --to USER | --withdraw | --accept CLUSTER",
		Short: "Hand a cluster over to another owner",
		Long: `Hand a cluster that is yours over to another user of the control plane's issuer, who
has to accept it. Until then it stays yours, and --withdraw takes the offer back. Its
services, its repository and the konnector's credential stay as they are; once it is
accepted, you have no right on it any more.

An owner who has left cannot offer anything: a platform operator does it for them, with
kubectl patch clusterbinding ID --type=merge -p '{"spec":{"transferTo":"USER"}}'`,
		Example: `  # The cluster of the current context
  kubectl gitbind transfer --to bob@example.com

  # Bob, who finds its id with: kubectl gitbind get clusters --url URL
  kubectl gitbind transfer --accept k3x9d2abqw --url https://gitbind.example.com`,
	})
	fs := c.Flags()
	fs.StringVar(&in.To, "to", "", "who is to own the cluster, as the issuer names them")
	fs.BoolVar(&in.Withdraw, "withdraw", false, "take back the offer that was made")
	fs.StringVar(&in.Accept, "accept", "", "the id of a cluster that is offered to you")
	c.Excludes("accept", "to", "withdraw", "cluster-name")
	c.Excludes("to", "withdraw")
	c.BackendCluster(&in.Connection, &in.BackendURL, &in.ClusterRef, "accept")
	fs.BoolVarP(&in.Yes, "yes", "y", false, "do not ask whether to go on")
	c.SignInFlags()
	c.Check = func() error {
		if in.To == "" && !in.Withdraw && in.Accept == "" {
			return usage.Errorf("say what to do: --to USER, --withdraw or --accept CLUSTER")
		}
		return nil
	}
	return c.Run(command.Cluster|command.SignIn, func(ctx context.Context) error { return Do(ctx, in) })
}
