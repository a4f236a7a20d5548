package signin

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/coreos/go-oidc/v3/oidc"

	"gitbind.dev/konnector/internal/cli/session"
)

// checkAddress refuses what an issuer names in the place of a page or an endpoint of
// the web: other schemes start programs, and http lets others read along. An issuer
// that is itself at http, which is one of this machine or was allowed, may name such
// addresses, if they are no farther away.
func checkAddress(issuer, address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil || strings.ContainsFunc(address, func(r rune) bool { return r <= ' ' || r > '~' }):
		return fmt.Errorf("%.200q is not an address", address)
	case u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil:
		return fmt.Errorf("%.200q is not an https address", address)
	case u.Scheme == "http" && (!strings.HasPrefix(issuer, "http:") || session.IsLocal(issuer) && !session.IsLocal(address)):
		return fmt.Errorf("%.200q is not https", address)
	}
	return nil
}

// endpoints are what a discovery document has addresses of.
var endpoints = []string{
	"authorization_endpoint", "token_endpoint", "device_authorization_endpoint", "jwks_uri", "userinfo_endpoint", "end_session_endpoint",
}

// ours are the parameters of a request for a sign-in. An authorization endpoint whose
// own query had one could begin that of another client.
var ours = []string{"client_id", "redirect_uri", "response_type", "response_mode", "scope", "state", "nonce", "code_challenge", "code_challenge_method", "request", "request_uri"}

func checkEndpoints(issuer string, provider *oidc.Provider) error {
	document := map[string]any{}
	if err := provider.Claims(&document); err != nil {
		return err
	}
	for _, name := range endpoints {
		address, _ := document[name].(string)
		if address == "" {
			continue
		}
		if err := checkAddress(issuer, address); err != nil {
			return fmt.Errorf("its %s: %w", name, err)
		}
	}
	address, err := url.Parse(provider.Endpoint().AuthURL)
	if err != nil {
		return err
	}
	query, err := url.ParseQuery(address.RawQuery)
	if err != nil {
		return fmt.Errorf("its authorization_endpoint has a query that cannot be read: %q", address.RawQuery)
	}
	for name := range query {
		if slices.Contains(ours, strings.ToLower(name)) {
			return fmt.Errorf("its authorization_endpoint says itself what the %s is", name)
		}
	}
	return nil
}

// issuerClient is an HTTP client that codes and refresh tokens are not led away with
// to an address that an issuer may not name.
func issuerClient(base *http.Client, issuer string) *http.Client {
	c := *base
	c.CheckRedirect = func(next *http.Request, via []*http.Request) error {
		if len(via) > 5 {
			return errors.New("it sends in circles")
		}
		return checkAddress(issuer, next.URL.String())
	}
	return &c
}
