package allowedsigners

import (
	"context"

	"github.com/spf13/cobra"

	"gitbind.dev/konnector/internal/cli/command"
)

// Command is `kubectl gitbind allowed-signers`.
func Command(env command.Env) *cobra.Command {
	var in Input
	c := command.New(env, &in.Call, &cobra.Command{
		Use:   "allowed-signers",
		Short: "Show the agents' public keys, for git log --show-signature",
		Long: `Show the public keys with which the agents sign their commits, in the form of
OpenSSH's allowed_signers file, which git reads, too: the konnector's, if the
Connection has spec.signCommits, and the bridge's.

It takes the keys from the Connection, not from the repository: so who can write
there cannot choose them.`,
		Example: `  # Who signed what, by git alone
  kubectl gitbind allowed-signers > signers
  git -c gpg.ssh.allowedSignersFile=signers log --show-signature main`,
	})
	c.Flags().StringVar(&in.Connection, "connection", "", "name of the Connection, if the cluster has several")
	return c.Run(command.Cluster, func(ctx context.Context) error { return Do(ctx, in) })
}
