// Package signin signs people in who use a browser: OIDC's authorization code
// flow with PKCE, and a session in a sealed cookie.
//
// It sends people to the one issuer that it is given and takes them back at one
// address. A code counts only together with the state, the nonce and the PKCE
// verifier of a flow that was begun in the same browser. What it cannot do is
// said on a page in words; causes stay in the log. It decides nothing about
// rights, keeps no session on the server, and gives no ID token to anybody.
package signin

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"gitbind.dev/backend/internal/login"
	"gitbind.dev/backend/internal/refusal"
	"gitbind.dev/gitbridge/brief"
)

// The addresses, below the public URL.
const (
	signInPath   = "/signin"
	callbackPath = "/signin/callback"
	signOutPath  = "/signout"
)

const (
	// flowLifetime is how long a person may take at the issuer.
	flowLifetime = 10 * time.Minute
	// sessionLifetime is a working day. It does not hang on the ID token's
	// expiry, which some issuers put at five minutes: that says how long the
	// token may be shown to others, and nobody sees it here.
	sessionLifetime = 8 * time.Hour
	// exchangeTimeout is how long the issuer has to take a code.
	exchangeTimeout = 20 * time.Second
)

// Issuer is the issuer at which people sign in.
type Issuer interface {
	URL() string
	HTTP() *http.Client
	Endpoint() (oauth2.Endpoint, error)
	VerifySignIn(ctx context.Context, rawIDToken, clientID, nonce string) (login.Identity, error)
}

// SignIn signs people in.
type SignIn struct {
	Issuer Issuer
	// ClientID is the client at the issuer; ClientSecret is empty for a public
	// one, which PKCE then stands for alone.
	ClientID, ClientSecret string
	Scopes                 []string
	// PublicURL is where people reach this service, without a slash at its end.
	PublicURL string
	// Seal is made by NewSeal.
	Seal *Seal
	Log  *slog.Logger
	// Exchanges bounds how often the issuer is asked to take a code. It is made by
	// NewExchanges; nil means no bound.
	Exchanges *Exchanges
	Now       func() time.Time
}

// Mount adds the routes:
//
//	GET /signin?then=/path  sends the browser to the issuer, and later to /path
//	GET /signin/callback    is where the issuer sends it back to
//	POST /signout           ends the session
//
// They belong behind protection against requests that other sites cause.
func (s *SignIn) Mount(mux *http.ServeMux) {
	mux.HandleFunc("GET "+signInPath, s.begin)
	mux.HandleFunc("GET "+callbackPath, s.callback)
	mux.HandleFunc("POST "+signOutPath, s.signOut)
}

// Identity is who makes a request, by the session's cookie; false when nobody is
// signed in, or not any more.
func (s *SignIn) Identity(r *http.Request) (login.Identity, bool) {
	session, ok := s.session(r)
	if !ok || session.Issuer != s.Issuer.URL() {
		return login.Identity{}, false
	}
	return login.Identity{Issuer: session.Issuer, Subject: session.Subject, Username: session.Username, Groups: session.Groups}, true
}

// begin starts a flow.
func (s *SignIn) begin(w http.ResponseWriter, r *http.Request) {
	endpoint, err := s.Issuer.Endpoint()
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	f := flow{
		State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(),
		Then: local(r.URL.Query().Get("then")), Expires: s.Now().Add(flowLifetime),
	}
	if err := s.setFlows(w, append(s.flows(r), f)); err != nil {
		s.refuse(w, r, err)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	config := s.config(endpoint)
	http.Redirect(w, r, config.AuthCodeURL(f.State, oidc.Nonce(f.Nonce), oauth2.S256ChallengeOption(f.Verifier)), http.StatusSeeOther)
}

func (s *SignIn) config(endpoint oauth2.Endpoint) *oauth2.Config {
	if s.ClientSecret == "" {
		// Otherwise the library tries a header with an empty secret first.
		endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	return &oauth2.Config{
		ClientID: s.ClientID, ClientSecret: s.ClientSecret, Endpoint: endpoint,
		RedirectURL: s.PublicURL + callbackPath, Scopes: s.Scopes,
	}
}

// callback ends a flow, well or not: the browser drops it from its cookie, and keeps those of
// other tabs. Who keeps the cookie can come again, with another code.
func (s *SignIn) callback(w http.ResponseWriter, r *http.Request) {
	state, flows := []byte(r.URL.Query().Get("state")), s.flows(r)
	i := slices.IndexFunc(flows, func(f flow) bool { return subtle.ConstantTimeCompare(state, []byte(f.State)) == 1 })
	if _, signedIn := s.Identity(r); i < 0 && signedIn {
		w.Header().Set("Cache-Control", "no-store")
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	}
	if i < 0 {
		s.refuse(w, r, refusal.New(refusal.Invalid, "This sign-in was not begun in this browser, or more than %d minutes ago, or has ended already.", int(flowLifetime.Minutes())))
		return
	}
	f := flows[i]
	if err := s.setFlows(w, slices.Delete(flows, i, i+1)); err != nil {
		s.refuse(w, r, err)
		return
	}
	who, err := s.finish(r, f)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	if err := s.setSession(w, who); err != nil {
		s.refuse(w, r, err)
		return
	}
	s.Log.Info("Signed in with a browser", "user", who.Username)
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, f.Then, http.StatusSeeOther)
}

// finish turns the issuer's answer into an identity.
func (s *SignIn) finish(r *http.Request, f flow) (login.Identity, error) {
	query := r.URL.Query()
	if said := query.Get("error"); said != "" {
		return login.Identity{}, refusal.Because(errors.New(shorten(said+" "+query.Get("error_description"))), refusal.Forbidden,
			"The issuer did not sign you in. It said: %s", shorten(said+" "+query.Get("error_description")))
	}
	endpoint, err := s.Issuer.Endpoint()
	if err != nil {
		return login.Identity{}, err
	}
	taken, ok := s.Exchanges.begin(r)
	if !ok {
		return login.Identity{}, refusal.New(refusal.Unavailable, "Too many people sign in just now.")
	}
	ctx, cancel := context.WithTimeout(r.Context(), exchangeTimeout)
	defer cancel()
	ctx = context.WithValue(ctx, oauth2.HTTPClient, s.Issuer.HTTP())
	answer, err := s.config(endpoint).Exchange(ctx, query.Get("code"), oauth2.VerifierOption(f.Verifier))
	var refused *oauth2.RetrieveError
	switch {
	case errors.As(err, &refused) && refused.Response.StatusCode < http.StatusInternalServerError:
		return login.Identity{}, refusal.Because(err, refusal.Unauthenticated, "The issuer does not take this sign-in's code: it counts once, and not for long.")
	case err != nil:
		return login.Identity{}, refusal.Because(err, refusal.Unavailable, "The issuer does not answer just now.")
	}
	taken()
	raw, ok := answer.Extra("id_token").(string)
	if !ok {
		return login.Identity{}, refusal.New(refusal.Unavailable, "The issuer gave no ID token: its operator must allow the client %q the scope openid.", s.ClientID)
	}
	return s.Issuer.VerifySignIn(ctx, raw, s.ClientID, f.Nonce)
}

// signOut ends the session in this browser. That at the issuer goes on.
func (s *SignIn) signOut(w http.ResponseWriter, r *http.Request) {
	s.clearSession(w)
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// longestPath is more than any page's path has.
const longestPath = 1024

// local is a path of this service, and "/" for everything that a browser could
// take for another place, and for the sign-in itself, which would turn in
// circles.
func local(then string) string {
	u, err := url.Parse(then)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || len(then) > longestPath ||
		!strings.HasPrefix(then, "/") || strings.HasPrefix(then, "//") || strings.Contains(then, `\`) ||
		u.Path == signOutPath || u.Path == signInPath || strings.HasPrefix(u.Path, signInPath+"/") {
		return "/"
	}
	return u.String()
}

// shorten keeps what others say to a length that a page and a log can take.
func shorten(s string) string {
	const longest = 300
	return brief.CutBytes(brief.OneLine(s), longest)
}
