package login

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"gitbind.dev/backend/internal/refusal"
)

// typed is a token with a type in its header, signed by the issuer.
func (i *issuer) typed(t *testing.T, typ string) string {
	t.Helper()
	part := base64.RawURLEncoding.EncodeToString
	signed := part([]byte(`{"alg":"RS256","kid":"k","typ":"`+typ+`"}`)) + "." + part([]byte(i.claimsOf(nil)))
	sum := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(rand.Reader, i.key, crypto.SHA256, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return signed + "." + part(signature)
}

// All of these are signed by the issuer, for our client and in time.
func TestH8_WhatTheIssuerSignedForSomethingElseIsNoIDToken(t *testing.T) {
	i := newIssuer(t)
	v := verifier(t, config(i.url))
	waitReady(t, v)
	now := time.Now()
	at := func(d time.Duration) int64 { return now.Add(d).Unix() }
	for _, c := range []struct {
		name, token, words string
	}{
		{"an ID token", i.token(nil), ""},
		{"one that names its client", i.token(map[string]any{"azp": client}), ""},
		{"one for several clients, issued to ours", i.token(map[string]any{"aud": []string{"x", client}, "azp": client}), ""},
		{"one that Keycloak calls ID", i.token(map[string]any{"typ": "ID"}), ""},
		{"one that Cognito calls id", i.token(map[string]any{"token_use": "id"}), ""},
		{"a header that says JWT", i.typed(t, "JWT"), ""},
		{"one for a day", i.token(map[string]any{"iat": at(0), "exp": at(24 * time.Hour)}), ""},
		{"a clock a little ahead", i.token(map[string]any{"iat": at(time.Minute)}), ""},

		{"several audiences and a foreign azp", i.token(map[string]any{"aud": []string{"x", client}, "azp": "x"}), "issued to another client"},
		{"our audience and a foreign azp", i.token(map[string]any{"azp": "x"}), "issued to another client"},
		{"an azp that is no name", i.token(map[string]any{"azp": []string{client}}), "issued to another client"},
		{"an empty azp", i.token(map[string]any{"azp": ""}), "issued to another client"},
		{"several audiences and no azp", i.token(map[string]any{"aud": []string{client, "x"}}), "for several clients"},
		{"an access token of Keycloak", i.token(map[string]any{"typ": "Bearer"}), "no ID token"},
		{"a logout token of Keycloak", i.token(map[string]any{"typ": "Logout"}), "no ID token"},
		{"a refresh token of Keycloak", i.token(map[string]any{"typ": "Refresh"}), "no ID token"},
		{"a type that is no name", i.token(map[string]any{"typ": 1}), "no ID token"},
		{"an access token of Cognito", i.token(map[string]any{"token_use": "access"}), "no ID token"},
		{"an access token by RFC 9068", i.typed(t, "at+jwt"), "no ID token"},
		{"a logout token by its header", i.typed(t, "logout+jwt"), "no ID token"},
		{"a logout token by its events", i.token(map[string]any{"events": map[string]any{"http://schemas.openid.net/event/backchannel-logout": struct{}{}}}), "no ID token"},
		{"events that are null", i.token(map[string]any{"events": json.RawMessage("null")}), "no ID token"},
		{"ten years of life", i.token(map[string]any{"exp": at(10 * 365 * 24 * time.Hour)}), "lives longer than 24h0m0s"},
		{"a long life that is nearly over", i.token(map[string]any{"iat": at(-1000 * time.Hour), "exp": at(time.Hour)}), "lives longer"},
		{"issued in the future", i.token(map[string]any{"iat": at(time.Hour), "exp": at(2 * time.Hour)}), "issued in the future"},
		{"issued at no time", i.token(map[string]any{"iat": nil}), "when it was issued"},
		{"issued at the beginning of time", i.token(map[string]any{"iat": 0}), "when it was issued"},
	} {
		_, err := v.Verify(t.Context(), c.token)
		if c.words == "" {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		refused(t, c.name, err, refusal.Unauthenticated, c.words)
	}
}

func TestH8_AnOperatorSaysHowLongATokenLives(t *testing.T) {
	i := newIssuer(t)
	v := verifier(t, config(i.url, func(c *Config) { c.MaxLifetime = 5 * time.Minute }))
	waitReady(t, v)
	_, err := v.Verify(t.Context(), i.token(nil))
	refused(t, "an hour", err, refusal.Unauthenticated, "lives longer than 5m0s")
}

func TestH8_ASignInTakesNoTokenThatWasIssuedToAnotherClient(t *testing.T) {
	i := newIssuer(t)
	v := verifier(t, config(i.url))
	waitReady(t, v)
	token := i.token(map[string]any{"aud": []string{"web", client}, "azp": client, "nonce": "n"})
	_, err := v[0].VerifySignIn(t.Context(), token, "web", "n")
	refused(t, "the programs' token in a browser", err, refusal.Unauthenticated, "issued to another client")
}

func TestHeaderTypeOfWhatIsNoToken(t *testing.T) {
	for _, raw := range []string{"", "x", "!.x.y", base64.RawURLEncoding.EncodeToString([]byte("[]")) + ".x.y", strings.Repeat(".", 9)} {
		if got := headerType(raw); got != "" {
			t.Errorf("%q: %q", raw, got)
		}
	}
}
