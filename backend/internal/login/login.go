// Package login turns an OIDC ID token into an identity of the control plane,
// or refuses it in plain words. It signs nobody in (that is between the person
// and the issuer), keeps no session, and trusts nothing in a token before its
// signature is verified.
package login

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"gitbind.dev/backend/internal/refusal"
)

// Identity is who somebody is, as the issuer says and as the control plane's
// RBAC knows them.
type Identity struct {
	// Issuer and Subject identify the person, for good.
	Issuer, Subject string
	// Username and Groups carry the prefix that the API server puts on them.
	Username string
	Groups   []string
}

// Claims that can be the username.
const (
	ClaimEmail   = "email"
	ClaimSubject = "sub"
)

// Config says whose tokens count, and how they are read. Claim and prefix must
// be those of the API server's own OIDC configuration, where it has one: RBAC
// is asked about the name that comes out.
type Config struct {
	Issuer   string
	ClientID string
	// UsernameClaim is ClaimEmail or ClaimSubject.
	UsernameClaim string
	// Prefix is put before username and groups.
	Prefix string
	// CAFile has the issuer's CA certificates; "" means the system's.
	CAFile string
	Log    *slog.Logger
	// Now is for tests; nil means time.Now.
	Now func() time.Time
}

// Verifier verifies ID tokens. Run must be running.
type Verifier struct {
	cfg    Config
	client *http.Client
	// ready holds what discovery gave; nil as long as the issuer was not
	// reached. Once reached it stays: keys are fetched anew as needed.
	ready atomic.Pointer[oidc.IDTokenVerifier]
	// trouble is why there is nothing yet.
	trouble atomic.Pointer[error]
}

// discovery gives the issuer this long for each answer.
const issuerTimeout = 10 * time.Second

// New checks the configuration. It does not ask the issuer: an issuer that is
// down does not keep the backend from starting.
func New(cfg Config) (*Verifier, error) {
	switch {
	case cfg.Issuer == "":
		return nil, errors.New("OIDC issuer is missing")
	case cfg.ClientID == "":
		return nil, errors.New("OIDC client id is missing")
	case cfg.UsernameClaim != ClaimEmail && cfg.UsernameClaim != ClaimSubject:
		return nil, fmt.Errorf("OIDC username claim %q: use %s or %s", cfg.UsernameClaim, ClaimEmail, ClaimSubject)
	case cfg.Prefix == "" || strings.HasPrefix(cfg.Prefix, "system:"):
		// Without one, an issuer's group "system:masters" would be that of the
		// control plane.
		return nil, fmt.Errorf("prefix %q of OIDC names: use one that Kubernetes' own names do not have, oidc: for example", cfg.Prefix)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if cfg.CAFile != "" {
		pem, err := os.ReadFile(cfg.CAFile)
		if err != nil {
			return nil, fmt.Errorf("OIDC CA file: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("OIDC CA file %s has no certificate", cfg.CAFile)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return &Verifier{cfg: cfg, client: &http.Client{Transport: transport, Timeout: issuerTimeout}}, nil
}

// Run finds the issuer, trying again with growing pauses until it answers or
// ctx ends.
func (v *Verifier) Run(ctx context.Context) error {
	const first, longest = 100 * time.Millisecond, 5 * time.Second
	for pause := first; ; pause = min(2*pause, longest) {
		err := v.discover(ctx)
		if err == nil {
			v.cfg.Log.Info("Found the OIDC issuer", "issuer", v.cfg.Issuer)
			return nil
		}
		if v.trouble.Swap(&err) == nil && ctx.Err() == nil {
			v.cfg.Log.Error("OIDC issuer not reachable; sign-in is refused until it is", "issuer", v.cfg.Issuer, "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

func (v *Verifier) discover(ctx context.Context) error {
	ctx = oidc.ClientContext(ctx, v.client)
	provider, err := oidc.NewProvider(ctx, v.cfg.Issuer)
	if err != nil {
		return err
	}
	var doc struct {
		Keys       string   `json:"jwks_uri"`
		Algorithms []string `json:"id_token_signing_alg_values_supported"`
	}
	if err := provider.Claims(&doc); err != nil {
		return err
	}
	keys := &keySet{remote: oidc.NewRemoteKeySet(ctx, doc.Keys)}
	v.ready.Store(oidc.NewVerifier(v.cfg.Issuer, keys, &oidc.Config{
		ClientID:             v.cfg.ClientID,
		SupportedSigningAlgs: signing(doc.Algorithms),
		Now:                  v.cfg.Now,
	}))
	return nil
}

// signing keeps the algorithms that are safe for a token which others verify.
func signing(offered []string) []string {
	var algs []string
	for _, a := range offered {
		switch a {
		case oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.EdDSA:
			algs = append(algs, a)
		}
	}
	return algs
}

// Ready tells why tokens cannot be verified now, or nil.
func (v *Verifier) Ready() error {
	if v.ready.Load() != nil {
		return nil
	}
	if err := v.trouble.Load(); err != nil {
		return fmt.Errorf("OIDC issuer %s: %w", v.cfg.Issuer, *err)
	}
	return fmt.Errorf("OIDC issuer %s has not been asked yet", v.cfg.Issuer)
}

// Verify gives the identity that a raw ID token proves. The error is a refusal:
// Unauthenticated with words for its owner, or Unavailable while the issuer is
// out of reach.
func (v *Verifier) Verify(ctx context.Context, raw string) (Identity, error) {
	verifier := v.ready.Load()
	if verifier == nil {
		return Identity{}, refusal.Because(v.Ready(), refusal.Unavailable, "sign-in is not possible just now: the OIDC issuer cannot be reached")
	}
	outcome := &outcome{}
	token, err := verifier.Verify(context.WithValue(ctx, outcomeKey{}, outcome), raw)
	if err != nil {
		return Identity{}, v.explain(raw, err, outcome)
	}
	return v.identity(token)
}

// explain turns the library's error into words. It decides nothing: the token
// is refused already.
func (v *Verifier) explain(raw string, err error, o *outcome) error {
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
	case unverified.Issuer != v.cfg.Issuer:
		return no("the ID token is from another issuer: sign in at %s", v.cfg.Issuer)
	case !o.verified:
		return no("the ID token's signature is not the issuer's: sign in again")
	case !unverified.Audience.has(v.cfg.ClientID):
		return no("the ID token is for another client: sign in with client id %s", v.cfg.ClientID)
	}
	return no("the ID token is not valid: sign in again")
}

func (v *Verifier) identity(token *oidc.IDToken) (Identity, error) {
	var claims struct {
		Email    string   `json:"email"`
		Verified bool     `json:"email_verified"`
		Groups   []string `json:"groups"`
	}
	if err := token.Claims(&claims); err != nil {
		return Identity{}, refusal.Because(err, refusal.Unauthenticated, "the ID token's claims cannot be read")
	}
	id := Identity{Issuer: token.Issuer, Subject: token.Subject, Username: v.cfg.Prefix + token.Subject}
	if token.Subject == "" {
		return Identity{}, refusal.New(refusal.Unauthenticated, "the ID token names no subject")
	}
	if v.cfg.UsernameClaim == ClaimEmail {
		// An address that nobody has confirmed could be anybody's.
		if claims.Email == "" || !claims.Verified {
			return Identity{}, refusal.New(refusal.Unauthenticated, "the ID token has no verified email address: ask for the scope email, and have the address confirmed at the issuer")
		}
		id.Username = v.cfg.Prefix + claims.Email
	}
	for _, g := range claims.Groups {
		id.Groups = append(id.Groups, v.cfg.Prefix+g)
	}
	return id, nil
}

// outcome is what the key set saw of one verification; the library's error does
// not tell.
type outcome struct{ noKeys, verified bool }

type outcomeKey struct{}

// keySet notes for each verification whether it failed by the signature, or for
// want of keys.
type keySet struct{ remote oidc.KeySet }

func (k *keySet) VerifySignature(ctx context.Context, jwt string) ([]byte, error) {
	payload, err := k.remote.VerifySignature(ctx, jwt)
	if o, ok := ctx.Value(outcomeKey{}).(*outcome); ok {
		o.verified = err == nil
		// Of the remote key set's errors only that of fetching wraps another;
		// a test holds it to that.
		o.noKeys = err != nil && errors.Unwrap(err) != nil
	}
	return payload, err
}

// claims are what words are chosen by, as the token says them.
type claims struct {
	Issuer   string   `json:"iss"`
	Audience audience `json:"aud"`
}

// audience is one string or a list.
type audience []string

func (a *audience) UnmarshalJSON(b []byte) error {
	if bytes.HasPrefix(b, []byte(`"`)) {
		*a = make([]string, 1)
		return json.Unmarshal(b, &(*a)[0])
	}
	return json.Unmarshal(b, (*[]string)(a))
}

func (a audience) has(client string) bool {
	for _, c := range a {
		if c == client {
			return true
		}
	}
	return false
}

// peek reads a token's claims without believing them; nil when it is no token.
func peek(raw string) *claims {
	parts := strings.Split(raw, ".")
	if len(parts) != 3 {
		return nil
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return nil
	}
	var c claims
	if json.Unmarshal(payload, &c) != nil {
		return nil
	}
	return &c
}
