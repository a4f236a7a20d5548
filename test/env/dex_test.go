package env

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

func TestDex(t *testing.T) {
	t.Parallel()
	e := StartForTest(t, Options{Clusters: []string{}, Dex: true})
	t.Run("an ID token verifies and names the user", func(t *testing.T) {
		for _, user := range e.Dex.Users {
			raw, err := e.Dex.IDToken(testContext(t), user.Email)
			fatal(t, err)
			verifyToken(t, e.Dex, raw, user.Email)
		}
	})
	t.Run("the browser signs in for a program that waits on a loopback port", func(t *testing.T) { testLoopback(t, e.Dex) })
	t.Run("the browser approves a device code", func(t *testing.T) { testDeviceCode(t, e.Dex) })
	t.Run("an unknown user or page is an error", func(t *testing.T) {
		if _, err := e.Dex.IDToken(testContext(t), "mallory@example.com"); err == nil {
			t.Error("an unknown user signed in")
		}
		if err := e.Dex.Browser(testContext(t), Alice, e.Dex.Issuer+"/auth?client_id=unknown"); err == nil {
			t.Error("the browser took an error page for success")
		}
		wrong := &Dex{Issuer: e.Dex.Issuer, ClientID: e.Dex.ClientID, Users: []User{{Email: Alice, Password: BobPassword}}}
		if _, err := wrong.IDToken(testContext(t), Alice); err == nil || !strings.Contains(err.Error(), "Invalid Email Address and password") {
			t.Errorf("a wrong password: got %v, want a refusal", err)
		}
	})
}

func testLoopback(t *testing.T, d *Dex) {
	codes := make(chan string, 1)
	program := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { codes <- r.URL.Query().Get("code") }))
	defer program.Close()
	config := publicClient(t, d)
	config.RedirectURL = strings.Replace(program.URL, "127.0.0.1", "localhost", 1) + "/any/path"
	verifier := oauth2.GenerateVerifier()
	fatal(t, d.Browser(testContext(t), Bob, config.AuthCodeURL("state", oauth2.S256ChallengeOption(verifier))))
	token, err := config.Exchange(testContext(t), <-codes, oauth2.VerifierOption(verifier))
	fatal(t, err)
	verifyToken(t, d, token.Extra("id_token").(string), Bob)
}

func testDeviceCode(t *testing.T, d *Dex) {
	config := publicClient(t, d)
	ctx := testContext(t)
	verifier := oauth2.GenerateVerifier()
	device, err := config.DeviceAuth(ctx, oauth2.S256ChallengeOption(verifier))
	fatal(t, err)
	fatal(t, d.Browser(ctx, Alice, device.VerificationURIComplete))
	device.Interval = 1
	token, err := config.DeviceAccessToken(ctx, device, oauth2.VerifierOption(verifier))
	fatal(t, err)
	verifyToken(t, d, token.Extra("id_token").(string), Alice)
}

func publicClient(t *testing.T, d *Dex) *oauth2.Config {
	t.Helper()
	p, err := oidc.NewProvider(testContext(t), d.Issuer)
	fatal(t, err)
	return &oauth2.Config{ClientID: d.ClientID, Endpoint: p.Endpoint(), Scopes: []string{oidc.ScopeOpenID, "email"}}
}

func verifyToken(t *testing.T, d *Dex, raw, email string) {
	t.Helper()
	p, err := oidc.NewProvider(testContext(t), d.Issuer)
	fatal(t, err)
	token, err := p.Verifier(&oidc.Config{ClientID: d.ClientID}).Verify(testContext(t), raw)
	fatal(t, err)
	var claims struct {
		Email    string `json:"email"`
		Verified bool   `json:"email_verified"`
	}
	fatal(t, token.Claims(&claims))
	if claims.Email != email || !claims.Verified {
		t.Errorf("claims = %+v, want %s, verified", claims, email)
	}
}
