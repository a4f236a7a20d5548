package signin

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"gitbind.dev/konnector/internal/cli/output"
)

// issuer is an OpenID Connect provider whose endpoints are known.
type issuer struct {
	http     *http.Client
	out      io.Writer
	open     func(ctx context.Context, url string) error
	config   oauth2.Config
	verifier *oidc.IDTokenVerifier
	name     string
}

// token is a checked ID token.
type token struct {
	raw, username, refresh string
	expiry                 time.Time
}

func (s *SignIn) discover(ctx context.Context, p Provider) (*issuer, error) {
	client := issuerClient(s.HTTP, p.Issuer)
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, client), p.Issuer)
	if err != nil {
		return nil, fmt.Errorf("ask %s how to sign in: %w", p.Issuer, WithAdvice(err))
	}
	if err := checkEndpoints(p.Issuer, provider); err != nil {
		return nil, fmt.Errorf("ask %s how to sign in: %w", p.Issuer, err)
	}
	scopes, err := scopes(provider, p.Scopes)
	if err != nil {
		return nil, fmt.Errorf("ask %s how to sign in: %w", p.Issuer, err)
	}
	return &issuer{
		http: client, out: s.Out, open: s.OpenBrowser, name: p.Issuer,
		config:   oauth2.Config{ClientID: p.ClientID, Endpoint: provider.Endpoint(), Scopes: scopes},
		verifier: provider.VerifierContext(oidc.ClientContext(context.WithoutCancel(ctx), client), &oidc.Config{ClientID: p.ClientID}),
	}, nil
}

// scopes are those that the backend wants, or what it most likely needs, and
// the one that gives a refresh token: not having to sign in every day is our
// wish, not the backend's. Some issuers refuse scopes that they do not know.
func scopes(provider *oidc.Provider, wanted []string) ([]string, error) {
	var known struct {
		Scopes []string `json:"scopes_supported"`
	}
	if err := provider.Claims(&known); err != nil {
		return nil, err
	}
	out := []string{oidc.ScopeOpenID}
	if len(wanted) == 0 {
		wanted = []string{"email", "profile"}
	}
	if slices.Contains(known.Scopes, oidc.ScopeOfflineAccess) {
		wanted = append(slices.Clone(wanted), oidc.ScopeOfflineAccess)
	}
	for _, scope := range wanted {
		if !slices.Contains(out, scope) {
			out = append(out, scope)
		}
	}
	return out, nil
}

// client makes oauth2 use our HTTP client.
func (i *issuer) client(ctx context.Context) context.Context {
	return context.WithValue(ctx, oauth2.HTTPClient, i.http)
}

// verify checks an answer of the token endpoint. A nonce is checked when one
// was asked for.
func (i *issuer) verify(ctx context.Context, answer *oauth2.Token, nonce string) (token, error) {
	raw, ok := answer.Extra("id_token").(string)
	if !ok {
		return token{}, fmt.Errorf("sign in: %s gave no ID token: its client %q must be allowed the scope openid", i.name, i.config.ClientID)
	}
	checked, err := i.verifier.Verify(ctx, raw)
	if err != nil {
		return token{}, fmt.Errorf("sign in: check the ID token: %w", err)
	}
	if nonce != "" && checked.Nonce != nonce {
		return token{}, errors.New("sign in: the ID token is for another sign-in: try again")
	}
	var who struct {
		Email     string `json:"email"`
		Preferred string `json:"preferred_username"`
	}
	if err := checked.Claims(&who); err != nil {
		return token{}, fmt.Errorf("sign in: read the ID token: %w", err)
	}
	return token{
		raw: raw, username: output.Line(cmp.Or(who.Email, who.Preferred, checked.Subject)),
		refresh: answer.RefreshToken, expiry: checked.Expiry,
	}, nil
}

// tell prints what to do to the person. A line that cannot be printed is no
// reason to stop: the browser may have opened.
func (i *issuer) tell(format string, args ...any) {
	fmt.Fprintf(i.out, format, args...)
}

// random is a fresh value that nobody can guess.
func random() string { return rand.Text() }
