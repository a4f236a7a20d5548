package gitcredential

import (
	"context"

	"github.com/spf13/cobra"

	"gitbind.dev/konnector/internal/cli/command"
)

// Command is `kubectl-gitbind git-credential`.
func Command(env command.Env) *cobra.Command {
	var in Input
	c := command.New(env, &in.Call, &cobra.Command{
		Use:   "git-credential get|store|erase",
		Short: "Let git sign in as you (a git credential helper)",
		Long: `Let git sign in as you at the backends where you are signed in, and at no other
host. Git runs this command; it renews your sign-in when it can, and never asks.`,
		Example: `  # A clone that signs in as you
  git clone -c credential.helper='!kubectl-gitbind git-credential' URL`,
		Args: cobra.ExactArgs(1),
	})
	c.Argument(&in.Operation)
	return c.Run(command.SignIn, func(ctx context.Context) error { return Do(ctx, in) })
}
