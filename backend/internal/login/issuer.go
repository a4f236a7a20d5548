package login

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"gitbind.dev/backend/internal/refusal"
)

// Issuer verifies the ID tokens of one OIDC issuer. Run must be running.
type Issuer struct {
	cfg    Config
	client *http.Client
	// found holds what discovery gave; nil as long as the issuer was not
	// reached. Once reached it stays: keys are fetched again as needed.
	found atomic.Pointer[found]
	// trouble is why there is nothing yet.
	trouble atomic.Pointer[error]
}

type found struct {
	endpoint oauth2.Endpoint
	verifier *oidc.IDTokenVerifier
}

// issuerTimeout is how long an issuer has for each answer.
const issuerTimeout = 10 * time.Second

// NewIssuer checks the configuration. It does not ask the issuer: one that is
// down does not keep the backend from starting.
func NewIssuer(cfg Config, log *slog.Logger) (*Issuer, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if cfg.CA != "" {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM([]byte(cfg.CA)) {
			return nil, fmt.Errorf("OIDC issuer %s: there is no certificate in its CA certificates", cfg.URL)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	cfg.log = log
	return &Issuer{cfg: cfg, client: &http.Client{Transport: transport, Timeout: issuerTimeout, CheckRedirect: checkRedirect}}, nil
}

// checkRedirect keeps codes, and questions about keys, from being led away in clear.
func checkRedirect(next *http.Request, via []*http.Request) error {
	if !private(next.URL.String()) {
		return fmt.Errorf("it sends to %q, which is not https", next.URL)
	}
	if len(via) > 5 {
		return errors.New("it sends in circles")
	}
	return nil
}

// Run finds the issuer, trying again with growing pauses until it answers or
// ctx ends.
func (i *Issuer) Run(ctx context.Context) error {
	const first, longest = 100 * time.Millisecond, 5 * time.Second
	for pause := first; ; pause = min(2*pause, longest) {
		err := i.discover(ctx)
		if err == nil {
			i.cfg.log.Info("Found the OIDC issuer", "issuer", i.cfg.URL)
			return nil
		}
		if i.trouble.Swap(&err) == nil && ctx.Err() == nil {
			i.cfg.log.Error("OIDC issuer not reachable; its tokens are refused until it is", "issuer", i.cfg.URL, "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

func (i *Issuer) discover(ctx context.Context) error {
	ctx = oidc.ClientContext(ctx, i.client)
	provider, err := oidc.NewProvider(ctx, i.cfg.URL)
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
	if !private(doc.Keys) {
		return fmt.Errorf("its jwks_uri is %q, which is not https", doc.Keys)
	}
	fetching := &http.Client{Transport: &keysTransport{client: i.client, every: keysEvery, again: keysAgain}}
	keys := &keySet{remote: oidc.NewRemoteKeySet(oidc.ClientContext(ctx, fetching), doc.Keys)}
	i.found.Store(&found{endpoint: provider.Endpoint(), verifier: oidc.NewVerifier(i.cfg.URL, keys, &oidc.Config{
		SkipClientIDCheck:    true, // there may be several: see verify
		SupportedSigningAlgs: signing(doc.Algorithms),
	})})
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
func (i *Issuer) Ready() error {
	if i.found.Load() != nil {
		return nil
	}
	if err := i.trouble.Load(); err != nil {
		return fmt.Errorf("OIDC issuer %s: %w", i.cfg.URL, *err)
	}
	return fmt.Errorf("OIDC issuer %s has not been asked yet", i.cfg.URL)
}

// URL is the issuer's.
func (i *Issuer) URL() string { return i.cfg.URL }

// ClientID is the one that people's programs sign in with.
func (i *Issuer) ClientID() string { return i.cfg.Audiences[0] }

// HTTP is the client that trusts the issuer's certificates.
func (i *Issuer) HTTP() *http.Client { return i.client }

// Endpoint is where people sign in and codes are exchanged. The error is a
// refusal: Unavailable while the issuer is out of reach, and for one that has no
// such addresses, or none of https, as some of pipelines.
func (i *Issuer) Endpoint() (oauth2.Endpoint, error) {
	f, err := i.reached()
	if err != nil {
		return oauth2.Endpoint{}, err
	}
	if !private(f.endpoint.AuthURL) || !private(f.endpoint.TokenURL) {
		return oauth2.Endpoint{}, refusal.Because(fmt.Errorf("the authorization_endpoint of the OIDC issuer %s is %q, its token_endpoint %q: want https", i.cfg.URL, f.endpoint.AuthURL, f.endpoint.TokenURL),
			refusal.Unavailable, "sign-in is not possible: the OIDC issuer does not offer it by https")
	}
	return f.endpoint, nil
}

func (i *Issuer) reached() (*found, error) {
	if f := i.found.Load(); f != nil {
		return f, nil
	}
	return nil, refusal.Because(i.Ready(), refusal.Unavailable, "sign-in is not possible just now: the OIDC issuer cannot be reached")
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
