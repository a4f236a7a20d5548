// Package signin gets an ID token for a backend from a person, with OpenID
// Connect: from the saved session, by a refresh, with the browser (authorization
// code with PKCE on a loopback port) or with another device (device code).
//
// It checks signature, issuer, audience, nonce and expiry of each token before
// it is kept, speaks plain http to this machine only unless told otherwise, and
// puts no token into a URL, a message or an argument.
package signin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"golang.org/x/oauth2"

	"gitbind.dev/konnector/internal/cli/session"
)

// leeway is how long a token must still be good for to be used.
const leeway = time.Minute

// signInTimeout is how long a person may take.
const signInTimeout = 10 * time.Minute

// How says in which way a person may be asked.
type How struct {
	// Device asks for a code on another device, for machines without a
	// browser.
	Device bool
	// NoBrowser prints the address and opens nothing.
	NoBrowser bool
	// PlainHTTP allows http to other machines.
	PlainHTTP bool
	// Connection names the Connection that names the backend, or its CA
	// certificates; "" when the person gave both themselves.
	Connection string
	// TrustBackend is the backend's URL that the person means, in the form of
	// session.BackendURL: nothing is asked about it.
	TrustBackend string
	// Token is an ID token from elsewhere, which is used and not kept.
	Token string
	// Silent asks nobody: where a person would have to sign in, the error is
	// session.ErrNone.
	Silent bool
}

// Provider is what a backend says about signing in.
type Provider struct {
	Issuer   string
	ClientID string
	Scopes   []string
}

// SignIn gets ID tokens.
type SignIn struct {
	Sessions session.Store
	HTTP     *http.Client
	// Out is where the person is told what to do.
	Out io.Writer
	// OpenBrowser shows an address to the person; an error is no failure, since
	// the address is printed too.
	OpenBrowser func(ctx context.Context, url string) error
	// Confirm asks the person; nil when nobody is there.
	Confirm func(ctx context.Context, question string) (bool, error)
	Now     func() time.Time

	// bundle is what HTTP trusts beside the system's certificates.
	bundle []byte
}

// Token is an ID token for the backend, after Agree. With renew, the saved one is
// not used: the backend has refused it.
func (s *SignIn) Token(ctx context.Context, backendURL string, p Provider, how How, renew bool) (string, error) {
	if how.Token != "" {
		return how.Token, nil
	}
	if token, err := s.saved(ctx, backendURL, p, renew); token != "" || err != nil {
		return token, err
	}
	if how.Silent {
		return "", session.ErrNone
	}
	if !how.PlainHTTP && !session.Private(p.Issuer) {
		return "", fmt.Errorf("%s signs people in at %s, which is not https: anybody on the way could read along. Ask its operator, or allow it with --allow-http", backendURL, p.Issuer)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, signInTimeout, fmt.Errorf("nobody signed in within %s", signInTimeout))
	defer cancel()
	issuer, err := s.discover(ctx, p)
	if err != nil {
		return "", err
	}
	flow := issuer.withBrowser
	if how.Device {
		flow = issuer.withDevice
	}
	token, err := flow(ctx, how)
	if err != nil {
		return "", interrupted(ctx, err)
	}
	fmt.Fprintf(s.Out, "Signed in as %s.\n", token.username)
	return token.raw, s.save(backendURL, p, token)
}

// Silent is an ID token for the backend from the saved session, renewed if need
// be, without asking anybody. The error is session.ErrNone when that is not
// possible.
func (s *SignIn) Silent(ctx context.Context, backendURL string) (token, username string, err error) {
	saved, err := s.Sessions.Load(backendURL)
	if err != nil {
		return "", "", err
	}
	if !s.trusts(saved) {
		return "", "", session.ErrNone
	}
	p := Provider{Issuer: saved.Issuer, ClientID: saved.ClientID, Scopes: saved.Scopes}
	token, err = s.saved(ctx, backendURL, p, false)
	if err == nil && token == "" {
		err = session.ErrNone
	}
	return token, saved.Username, err
}

// saved is the token of the saved session, "" when the person must be asked.
func (s *SignIn) saved(ctx context.Context, backendURL string, p Provider, renew bool) (string, error) {
	before, err := s.Sessions.Load(backendURL)
	if errors.Is(err, session.ErrNone) || err == nil && (before.Issuer != p.Issuer || before.ClientID != p.ClientID) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if !renew && s.good(before) {
		return before.IDToken, nil
	}
	unlock, err := s.Sessions.Lock(backendURL)
	if err != nil {
		return "", err
	}
	defer unlock()
	// Another process may have renewed it meanwhile.
	now, err := s.Sessions.Load(backendURL)
	if err != nil || now.RefreshToken == "" {
		return "", nil
	}
	if now.IDToken != before.IDToken && s.good(now) {
		return now.IDToken, nil
	}
	return s.refresh(ctx, now)
}

func (s *SignIn) good(saved session.Session) bool {
	return saved.IDToken != "" && s.Now().Add(leeway).Before(saved.Expiry)
}

// refresh gives "" when the issuer does not take the refresh token any more.
func (s *SignIn) refresh(ctx context.Context, saved session.Session) (string, error) {
	p := Provider{Issuer: saved.Issuer, ClientID: saved.ClientID, Scopes: saved.Scopes}
	if len(s.bundle) == 0 {
		var err error
		if s, err = s.Trusting(saved.CABundle); err != nil {
			return "", err
		}
	}
	issuer, err := s.discover(ctx, p)
	if err != nil {
		return "", err
	}
	answer, err := issuer.config.TokenSource(issuer.client(ctx), &oauth2.Token{RefreshToken: saved.RefreshToken}).Token()
	if refuses(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("renew the sign-in: %s does not answer just now, try again: %w", saved.Issuer, said(err))
	}
	token, err := issuer.verify(ctx, answer, "")
	if err != nil {
		return "", err
	}
	if token.refresh == "" {
		token.refresh = saved.RefreshToken
	}
	return token.raw, s.save(saved.BackendURL, p, token)
}

// refuses tells whether an issuer refused what it was shown, by an error of OAuth or by a status
// that those have. The library has the same error for an issuer that is away, and for what answers
// in its place.
func refuses(err error) bool {
	var refused *oauth2.RetrieveError
	if !errors.As(err, &refused) {
		return false
	}
	switch status := refused.Response.StatusCode; status {
	case http.StatusBadRequest, http.StatusUnauthorized:
		return true
	case http.StatusTooManyRequests:
		return false
	default:
		return refused.ErrorCode != "" && status < http.StatusInternalServerError
	}
}

func (s *SignIn) save(backendURL string, p Provider, t token) error {
	before, err := s.Sessions.Load(backendURL)
	if err != nil && !errors.Is(err, session.ErrNone) {
		return err
	}
	return s.Sessions.Save(session.Session{
		BackendURL: backendURL, Issuer: p.Issuer, ClientID: p.ClientID, Scopes: p.Scopes,
		Username: t.username, IDToken: t.raw, Expiry: t.expiry, RefreshToken: t.refresh,
		CABundle: before.CABundle,
	})
}

// interrupted prefers the reason why a context ended to what that caused.
func interrupted(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("sign in: %w", cause)
	}
	return err
}
