package logout

import (
	"context"

	"github.com/spf13/cobra"

	"gitbind.dev/konnector/internal/cli/command"
	"gitbind.dev/konnector/internal/cli/session"
)

// Command is `kubectl gitbind logout`.
func Command(env command.Env) *cobra.Command {
	var in Input
	c := command.New(env, &in.Call, &cobra.Command{
		Use:   "logout [URL]",
		Short: "Forget your sign-ins on this machine",
		Long: `Forget your sign-in at the backend at URL, or at all of them, and that you agreed
to sign in there. What is connected and bound goes on without you.`,
		Example: `  kubectl gitbind logout https://gitbind.example.com`,
		Args:    cobra.MaximumNArgs(1),
	})
	c.Argument(&in.BackendURL)
	c.Check = func() (err error) {
		if in.BackendURL != "" {
			in.BackendURL, err = session.BackendURL(in.BackendURL)
		}
		return err
	}
	return c.Run(command.SignIn, func(context.Context) error { return Do(in) })
}
