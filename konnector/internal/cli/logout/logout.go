// Package logout forgets sign-ins on this machine. It tells neither the backend
// nor the issuer: a token that somebody has copied is good until it expires.
package logout

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"gitbind.dev/konnector/internal/cli/session"
	"gitbind.dev/konnector/internal/cli/signin"
)

// Input is what the person asked for.
type Input struct {
	Sessions session.Store
	// BackendURL has the form of session.BackendURL; all when empty.
	BackendURL string
	Out        io.Writer
}

// Do forgets one sign-in or all.
func Do(in Input) error {
	all, err := in.Sessions.All()
	if err != nil {
		return err
	}
	forgotten := 0
	for _, s := range all {
		if in.BackendURL != "" && s.BackendURL != in.BackendURL {
			continue
		}
		if err := in.Sessions.Remove(s.BackendURL); err != nil {
			return err
		}
		fmt.Fprintf(in.Out, "%s is signed out of %s.\n", s.Username, s.BackendURL)
		forgotten++
	}
	if forgotten == 0 {
		fmt.Fprintln(in.Out, "Nobody was signed in.")
	}
	return nil
}

// Command is `kubectl gitbind logout`.
func Command(signIn signin.Opener) *cobra.Command {
	return &cobra.Command{
		Use:   "logout [URL]",
		Short: "Forget your sign-ins on this machine",
		Long: `Forget your sign-in at the backend at URL, or at all of them. What is connected
and bound goes on without you.`,
		Example: `  kubectl gitbind logout https://gitbind.example.com`,
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := signIn()
			if err != nil {
				return err
			}
			in := Input{Sessions: s.Sessions, Out: cmd.OutOrStdout()}
			if len(args) == 1 {
				if in.BackendURL, err = session.BackendURL(args[0]); err != nil {
					return err
				}
			}
			return Do(in)
		},
	}
}
