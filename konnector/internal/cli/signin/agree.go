package signin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"gitbind.dev/konnector/internal/cli/output"
	"gitbind.dev/konnector/internal/cli/session"
	"gitbind.dev/konnector/internal/cli/terminal"
	"gitbind.dev/konnector/internal/cli/usage"
)

// Agree makes sure that the person means to sign in at a backend, before it gets
// anything that counts as theirs. Who gives a URL means it. One that a Connection
// names was written by those who administer that cluster: it is asked about once,
// and again when its issuer, its client or its CA certificates are others. The
// answer is kept with the session.
//
// A client that another backend's sign-in is for is refused whatever the person
// says: what they were given for the one would count at the other.
func (s *SignIn) Agree(ctx context.Context, backendURL string, p Provider, how How) error {
	if err := s.refuseSharedClient(backendURL, p); err != nil {
		return err
	}
	known, err := s.Sessions.Load(backendURL)
	isNew := errors.Is(err, session.ErrNone)
	if err != nil && !isNew {
		return err
	}
	isOther := known.Issuer != p.Issuer || known.ClientID != p.ClientID
	var what string
	switch {
	case isNew:
		what = "where you have not signed in from this machine"
	case isOther:
		what = fmt.Sprintf("which had another issuer or client when you agreed to sign in there: %s, client %q", output.Line(known.Issuer), output.Line(known.ClientID))
	case !s.trusts(known):
		what = "with CA certificates that you have not agreed to"
	default:
		return nil
	}
	if err := s.agree(ctx, backendURL, p, how, what); err != nil {
		return err
	}
	if isNew || isOther {
		known = session.Session{BackendURL: backendURL, Issuer: p.Issuer, ClientID: p.ClientID, Scopes: p.Scopes, CABundle: known.CABundle}
	}
	switch {
	case s.trusts(known):
	case how.Connection == "" && len(known.CABundle) > 0:
		// A Connection may go on with what was agreed to before.
		known.CABundle = slices.Concat(known.CABundle, []byte("\n"), s.bundle)
	default:
		known.CABundle = s.bundle
	}
	err = s.Sessions.Save(known)
	if how.Token != "" {
		return nil // a pipeline may have no folder that it may write to
	}
	return err
}

// agree asks the person, unless they have said so already.
func (s *SignIn) agree(ctx context.Context, backendURL string, p Provider, how How, what string) error {
	url, issuer, client := output.Line(backendURL), output.Line(p.Issuer), output.Line(p.ClientID)
	switch {
	case how.Connection == "" || how.TrustBackend == backendURL:
		return nil
	case how.Silent:
		return session.ErrNone
	case s.Confirm == nil:
		return usage.Errorf("the Connection %q names the control plane %s, %s. It signs people in at %s, client %q. If it is the one that you mean, add --trust-backend %s",
			how.Connection, url, what, issuer, client, url)
	}
	agreed, err := s.Confirm(ctx, fmt.Sprintf(`The Connection %q of this cluster names the control plane
  %s
%s. It signs people in at
  %s (client %q).
Those who administer this cluster can write that, and get what your sign-in there
is good for. Go on?`, how.Connection, url, what, issuer, client))
	if err == nil && !agreed {
		err = terminal.ErrDeclined
	}
	return err
}

// trusts tells whether the certificates that are trusted beside the system's are
// those that the person agreed to.
func (s *SignIn) trusts(known session.Session) bool {
	return len(s.bundle) == 0 || bytes.Contains(known.CABundle, s.bundle)
}

// refuseSharedClient does not look at the issuer: one that is hostile can send
// people on to another's, where the name of the client is what counts. A control
// plane on this machine is for trying things out, and keeps its client from nobody.
func (s *SignIn) refuseSharedClient(backendURL string, p Provider) error {
	all, err := s.Sessions.All()
	if err != nil {
		return err
	}
	for _, other := range all {
		if other.BackendURL == backendURL || other.ClientID != p.ClientID || !other.IsSignedIn() || session.IsLocal(other.BackendURL) {
			continue
		}
		return fmt.Errorf("%s asks for a sign-in for the client %q, as %s does: a token for the one would count at the other. "+
			"If it is another control plane, its operator must give it a client of its own (--oidc-client-id of its backend). If it is the same at a new address: kubectl gitbind logout %s",
			output.Line(backendURL), output.Line(p.ClientID), other.BackendURL, other.BackendURL)
	}
	return nil
}
