package gitcredential

import (
	"github.com/spf13/cobra"

	"gitbind.dev/konnector/internal/cli/signin"
)

// Command is `kubectl-gitbind git-credential`.
func Command(signIn signin.Opener) *cobra.Command {
	return &cobra.Command{
		Use:   "git-credential get|store|erase",
		Short: "Let git sign in as you (a git credential helper)",
		Long: `Let git sign in as you at the backends where you are signed in, and at no other
host. Git runs this command; it renews your sign-in when it can, and never asks.`,
		Example: `  # A clone that signs in as you
  git clone -c credential.helper='!kubectl-gitbind git-credential' URL`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := signIn()
			if err != nil {
				return err
			}
			return Do(cmd.Context(), Input{
				Operation: args[0], SignIn: s,
				In: cmd.InOrStdin(), Out: cmd.OutOrStdout(), Notes: cmd.ErrOrStderr(),
			})
		},
	}
}
