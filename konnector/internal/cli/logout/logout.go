// Package logout forgets sign-ins on this machine. It tells neither the backend
// nor the issuer: a token that somebody has copied is good until it expires.
package logout

import (
	"fmt"

	"gitbind.dev/konnector/internal/cli/command"
)

// Input is what the person asked for.
type Input struct {
	command.Call
	// BackendURL has the form of session.BackendURL; all when empty.
	BackendURL string
}

// Do forgets one sign-in or all.
func Do(in Input) error {
	all, err := in.SignIn.Sessions.All()
	if err != nil {
		return err
	}
	forgotten := 0
	for _, s := range all {
		if in.BackendURL != "" && s.BackendURL != in.BackendURL {
			continue
		}
		if err := in.SignIn.Sessions.Remove(s.BackendURL); err != nil {
			return err
		}
		if !s.IsSignedIn() {
			continue
		}
		fmt.Fprintf(in.Terminal.Out, "%s is signed out of %s.\n", s.Username, s.BackendURL)
		forgotten++
	}
	if forgotten == 0 {
		fmt.Fprintln(in.Terminal.Out, "Nobody was signed in.")
	}
	return nil
}
