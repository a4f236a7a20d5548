package env

import (
	"context"
	"errors"
	"fmt"
	"net/http/cookiejar"
	"net/url"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// IDToken signs a user in by the authorization code flow with PKCE, in the
// place of both the program and the browser, and returns the raw ID token.
func (d *Dex) IDToken(ctx context.Context, email string) (string, error) {
	discovered, err := oidc.NewProvider(ctx, d.Issuer)
	if err != nil {
		return "", fmt.Errorf("discover %s: %w", d.Issuer, err)
	}
	// Nobody listens there: the browser stops when it is sent to it.
	config := oauth2.Config{
		ClientID: d.ClientID, Endpoint: discovered.Endpoint(), RedirectURL: "http://localhost:1/callback",
		Scopes: []string{oidc.ScopeOpenID, "email", "profile", "groups", oidc.ScopeOfflineAccess},
	}
	verifier, state := oauth2.GenerateVerifier(), oauth2.GenerateVerifier()
	jar, err := cookiejar.New(nil)
	if err != nil {
		return "", err
	}
	callback, err := d.Browse(ctx, jar, email, config.AuthCodeURL(state, oauth2.S256ChallengeOption(verifier)), config.RedirectURL)
	if err != nil {
		return "", err
	}
	query := callback.Query()
	if query.Get("state") != state || query.Get("code") == "" {
		return "", fmt.Errorf("sign in as %s: Dex answered %s", email, redacted(query))
	}
	token, err := config.Exchange(ctx, query.Get("code"), oauth2.VerifierOption(verifier))
	if err != nil {
		return "", fmt.Errorf("sign in as %s: exchange the code: %w", email, err)
	}
	raw, ok := token.Extra("id_token").(string)
	if !ok {
		return "", errors.New("sign in: Dex gave no ID token")
	}
	return raw, nil
}

// redacted is what an authorization server said to a callback, without codes.
func redacted(query url.Values) string {
	return fmt.Sprintf("error %q, %q", query.Get("error"), query.Get("error_description"))
}
