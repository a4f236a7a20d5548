// Package gitcredential lets git sign in as the person who is signed in at a
// backend: it speaks git's credential helper protocol (git help
// gitcredentials).
//
// It gives a token to the backend's own scheme, host and port only, renews it
// when it can do so silently, and asks nobody anything: git may run in a
// script.
package gitcredential

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"gitbind.dev/konnector/internal/cli/command"
	"gitbind.dev/konnector/internal/cli/output"
	"gitbind.dev/konnector/internal/cli/session"
)

// Input is what git asked for.
type Input struct {
	command.Call
	// Operation is get, store or erase. Others are for later versions of git.
	Operation string
}

// Do answers git. It says nothing about hosts that are none of ours: git then
// goes on to other helpers.
func Do(ctx context.Context, in Input) error {
	asked, err := read(in.Terminal.In)
	if err != nil {
		return err
	}
	sessions, err := in.SignIn.Sessions.All()
	if err != nil {
		return err
	}
	for _, s := range sessions {
		if !s.IsSignedIn() || !isFor(s, asked) {
			continue
		}
		switch in.Operation {
		case "get":
			return in.get(ctx, s)
		case "erase":
			return in.erase(s, asked["password"])
		}
	}
	return nil
}

func (in Input) get(ctx context.Context, s session.Session) error {
	token, username, err := in.SignIn.Silent(ctx, s.BackendURL)
	if err != nil {
		if _, err := io.WriteString(in.Terminal.Out, "quit=1\n"); err != nil { // asking for a password would not help
			return err
		}
		if errors.Is(err, session.ErrNone) {
			fmt.Fprintf(in.Notes, "You are not signed in at %s any more: kubectl gitbind catalog --url %s\n", s.BackendURL, s.BackendURL)
			return nil
		}
		return err
	}
	_, err = fmt.Fprintf(in.Terminal.Out, "username=%s\npassword=%s\n", output.Line(username), token)
	return err
}

// erase forgets a token that the host has refused, if it is the one that we
// have; the next get renews it.
func (in Input) erase(s session.Session, password string) error {
	unlock, err := in.SignIn.Sessions.Lock(s.BackendURL)
	if err != nil {
		return err
	}
	defer unlock()
	now, err := in.SignIn.Sessions.Load(s.BackendURL)
	if errors.Is(err, session.ErrNone) || err == nil && now.IDToken != password {
		return nil
	}
	if err != nil {
		return err
	}
	now.IDToken = ""
	return in.SignIn.Sessions.Save(now)
}

// isFor tells whether a session is that of the asked protocol and host, and of
// the path, if git was told to care for it.
func isFor(s session.Session, asked map[string]string) bool {
	u, err := url.Parse(s.BackendURL)
	if err != nil || u.Scheme != asked["protocol"] || u.Host != strings.ToLower(asked["host"]) {
		return false
	}
	path := strings.Trim(u.Path, "/")
	return asked["path"] == "" || path == "" || strings.HasPrefix(asked["path"], path+"/")
}

// read takes lines key=value up to an empty one.
func read(r io.Reader) (map[string]string, error) {
	out := map[string]string{}
	lines := bufio.NewScanner(r)
	for lines.Scan() && lines.Text() != "" {
		if key, value, ok := strings.Cut(lines.Text(), "="); ok {
			out[key] = value
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read what git asks for: %w", err)
	}
	return out, nil
}
