package login

import (
	"context"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"gitbind.dev/backend/internal/refusal"
)

// Verify gives the identity that a raw ID token proves. The error is a refusal:
// Unauthenticated with words for its owner, or Unavailable while the issuer is
// out of reach.
func (i *Issuer) Verify(ctx context.Context, raw string) (Identity, error) {
	token, err := i.verify(ctx, raw, i.cfg.Audiences)
	if err != nil {
		return Identity{}, err
	}
	return i.cfg.identity(token)
}

// VerifySignIn does the same for a token that was got in one sign-in: it is for
// the client that asked, and carries the nonce that was sent along.
func (i *Issuer) VerifySignIn(ctx context.Context, raw, clientID, nonce string) (Identity, error) {
	token, err := i.verify(ctx, raw, []string{clientID})
	if err != nil {
		return Identity{}, err
	}
	if nonce == "" || subtle.ConstantTimeCompare([]byte(token.Nonce), []byte(nonce)) != 1 {
		return Identity{}, refusal.New(refusal.Unauthenticated, "the ID token is from another sign-in: sign in again")
	}
	return i.cfg.identity(token)
}

func (i *Issuer) verify(ctx context.Context, raw string, audiences []string) (*oidc.IDToken, error) {
	f, err := i.reached()
	if err != nil {
		return nil, err
	}
	outcome := &outcome{}
	token, err := f.verifier.Verify(context.WithValue(ctx, outcomeKey{}, outcome), raw)
	if err != nil {
		return nil, i.explain(raw, err, outcome)
	}
	for _, client := range audiences {
		if slices.Contains(token.Audience, client) {
			return token, i.cfg.checkForUs(raw, token, audiences, time.Now())
		}
	}
	return nil, refusal.New(refusal.Unauthenticated, "the ID token is for another client: sign in with client id %s", audiences[0])
}

// explain turns the library's error into words. It decides nothing: the token
// is refused already.
func (i *Issuer) explain(raw string, err error, o *outcome) error {
	var expired *oidc.TokenExpiredError
	unverified := peek(raw)
	no := func(format string, args ...any) error {
		return refusal.Because(err, refusal.Unauthenticated, format, args...)
	}
	switch {
	case o.noKeys:
		return refusal.Because(err, refusal.Unavailable, "sign-in is not possible just now: the OIDC issuer's keys cannot be fetched")
	case unverified == nil:
		return no("this is no ID token: sign in again")
	case errors.As(err, &expired):
		return no("the ID token has expired: sign in again")
	case unverified.Issuer != i.cfg.URL:
		return no("the ID token is from another issuer: sign in at %s", i.cfg.URL)
	case !o.verified:
		return no("the ID token's signature is not the issuer's: sign in again")
	}
	return no("the ID token is not valid: sign in again")
}

// checkForUs refuses a token, which the issuer has signed, that is none for us.
func (c *Config) checkForUs(raw string, token *oidc.IDToken, clients []string, now time.Time) error {
	claims := map[string]json.RawMessage{}
	if err := token.Claims(&claims); err != nil {
		return refusal.Because(err, refusal.Unauthenticated, "the ID token's claims cannot be read")
	}
	if why := c.notForUs(raw, token, claims, clients, now); why != "" {
		return refusal.New(refusal.Unauthenticated, "%s", why)
	}
	return nil
}

// DefaultMaxLifetime is how long a token may live at most, if the configuration
// says nothing else: what the issuers that are known to us give at most.
const DefaultMaxLifetime = 24 * time.Hour

// clockSkew is by how much the issuer's clock may be ahead of ours.
const clockSkew = 5 * time.Minute

// notForUs says why a token that the issuer has signed is no ID token for one of
// these clients, or "". An issuer signs much with the same keys: tokens for
// other programs, for access, and for signing out.
func (c *Config) notForUs(raw string, token *oidc.IDToken, claims map[string]json.RawMessage, clients []string, now time.Time) string {
	if why := otherKind(raw, claims); why != "" {
		return why
	}
	party, said := text(claims["azp"])
	switch {
	case said && !slices.Contains(clients, party), !missing(claims["azp"]) && !said:
		return "the ID token was issued to another client than it names (claim azp): sign in with client id " + clients[0]
	case !said && len(token.Audience) > 1:
		return "the ID token is for several clients and does not say to which it was issued (claim azp): get one for " + clients[0] + " alone"
	case token.IssuedAt.IsZero() || token.IssuedAt.Unix() <= 0:
		return "the ID token does not say when it was issued"
	case token.IssuedAt.After(now.Add(clockSkew)):
		return "the ID token was issued in the future: its issuer's clock or ours is wrong"
	}
	most := c.MaxLifetime
	if most == 0 {
		most = DefaultMaxLifetime
	}
	if token.Expiry.Sub(token.IssuedAt) > most+time.Minute {
		return "the ID token lives longer than " + most.String() + ": have its issuer give shorter ones"
	}
	return ""
}

// otherKind says that a token is none that tells who somebody is: by the type in
// its header (RFC 9068, OIDC logout), by claims that only others have, or by what
// Keycloak and Cognito call it.
func otherKind(raw string, claims map[string]json.RawMessage) string {
	const words = "this is no ID token, but one for something else: sign in again"
	if typ := headerType(raw); typ != "" && !strings.EqualFold(typ, "JWT") {
		return words
	}
	for claim, want := range map[string]string{"typ": "ID", "token_use": "id"} {
		if got, ok := text(claims[claim]); !missing(claims[claim]) && (!ok || !strings.EqualFold(got, want)) {
			return words
		}
	}
	if claims["events"] != nil {
		return words
	}
	return ""
}

// headerType is what a token's header says that it is.
func headerType(raw string) string {
	head, _, _ := strings.Cut(raw, ".")
	data, err := base64.RawURLEncoding.DecodeString(head)
	var header struct {
		Type string `json:"typ"`
	}
	if err != nil || json.Unmarshal(data, &header) != nil {
		return ""
	}
	return header.Type
}
