package app

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"gitbind.dev/backend/internal/login"
	"gitbind.dev/backend/internal/signin"
)

// webOptions are the flags about people with a browser.
type webOptions struct {
	ui               bool
	clientID         string
	clientSecretFile string
	sessionKeyFile   string
}

func (o *webOptions) addFlags(f *pflag.FlagSet) {
	f.BoolVar(&o.ui, "ui", true, "serve the web page")
	f.StringVar(&o.clientID, "web-client-id", "", "client id of the web page at the OIDC issuer; empty: the programs' client, which must then be allowed the redirect <public URL>/signin/callback")
	f.StringVar(&o.clientSecretFile, "web-client-secret-file", "", "file with the secret of --web-client-id; empty: a public client")
	f.StringVar(&o.sessionKeyFile, "session-key-file", "", "file with the key of browsers' sessions, 32 random bytes in base64; empty: one of this process, whose end ends all sessions")
}

func (o *webOptions) check(publicURL *url.URL) error {
	if o.ui && publicURL != nil && strings.Trim(publicURL.Path, "/") != "" {
		return errors.New("the web page needs a --public-url without a path: use a host of its own, or --ui=false")
	}
	if o.clientSecretFile != "" && o.clientID == "" {
		return errors.New("--web-client-secret-file needs --web-client-id: the programs' client has no secret")
	}
	return nil
}

// signIn signs people in with a browser, at the first issuer.
func (o *webOptions) signIn(people *login.Issuer, publicURL string, log *slog.Logger) (*signin.SignIn, error) {
	s := &signin.SignIn{Issuer: people, ClientID: people.ClientID(), Scopes: scopes, PublicURL: publicURL, Exchanges: signin.NewExchanges(), Log: log, Now: time.Now}
	if o.clientID != "" {
		s.ClientID = o.clientID
	}
	if o.clientSecretFile != "" {
		secret, err := os.ReadFile(o.clientSecretFile)
		if err != nil {
			return nil, fmt.Errorf("--web-client-secret-file: %w", err)
		}
		if s.ClientSecret = string(bytes.TrimSpace(secret)); s.ClientSecret == "" {
			return nil, fmt.Errorf("--web-client-secret-file: %s is empty", o.clientSecretFile)
		}
	}
	key, err := o.sessionKey()
	if err != nil {
		return nil, err
	}
	s.Seal, err = signin.NewSeal(key)
	return s, err
}

func (o *webOptions) sessionKey() ([]byte, error) {
	if o.sessionKeyFile == "" {
		return signin.NewKey(), nil
	}
	data, err := os.ReadFile(o.sessionKeyFile)
	if err != nil {
		return nil, fmt.Errorf("--session-key-file: %w", err)
	}
	key, err := base64.StdEncoding.DecodeString(string(bytes.TrimSpace(data)))
	if err != nil || len(key) != signin.KeySize {
		return nil, fmt.Errorf("--session-key-file: %s does not hold %d bytes in base64: make it with openssl rand -base64 %d", o.sessionKeyFile, signin.KeySize, signin.KeySize)
	}
	return key, nil
}

// web serves pages to browsers, and the sign-in beside them, which takes requests
// that change something from our own pages only.
func web(publicURL string, s *signin.SignIn, pages http.Handler) http.Handler {
	flow := http.NewServeMux()
	s.Mount(flow)
	protection := http.NewCrossOriginProtection()
	// The one that people see: a proxy may call us by another name. It is one,
	// by the options' check.
	_ = protection.AddTrustedOrigin(publicURL)
	protection.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "gitbind: another site sent this request, and nothing was changed: go to "+publicURL+" and try again", http.StatusForbidden)
	}))
	mux := http.NewServeMux()
	for _, path := range []string{"/signin", "/signin/", "/signout"} {
		mux.Handle(path, protection.Handler(flow))
	}
	mux.Handle("/", pages)
	return mux
}

// guarded puts on every answer what keeps browsers from misreading it. Pages
// that need more than nothing say so themselves.
func guarded(h http.Handler, publicURL string) http.Handler {
	https := strings.HasPrefix(publicURL, "https://")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		if https {
			header.Set("Strict-Transport-Security", "max-age=31536000")
		}
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("X-Frame-Options", "DENY")
		header.Set("Referrer-Policy", "same-origin")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
		header.Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		h.ServeHTTP(w, r)
	})
}
