package signin

import (
	"context"
	"net/http"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"gitbind.dev/konnector/internal/cli/session"
	"gitbind.dev/test/env"
)

// TestAnotherMakeOfProvider signs in where little is as at Dex, by nothing but
// another configuration.
func TestAnotherMakeOfProvider(t *testing.T) {
	t.Parallel()
	z := env.StartForTest(t, env.Options{Clusters: []string{}, Zitadel: true}).Zitadel
	provider := Provider{Issuer: z.Issuer, ClientID: z.ClientID, Scopes: []string{"openid", "email", "profile", "groups"}}
	newSignIn := func() (*SignIn, *printed) {
		out := &printed{}
		return &SignIn{
			Sessions: session.Store{Dir: filepath.Join(t.TempDir(), "sessions")}, HTTP: &http.Client{Timeout: time.Minute},
			Out: out, Now: time.Now,
			OpenBrowser: func(ctx context.Context, address string) error {
				go func() {
					if err := z.Browser(ctx, env.Alice, address); err != nil && ctx.Err() == nil {
						t.Errorf("browser: %v", err)
					}
				}()
				return nil
			},
		}, out
	}
	t.Run("with the browser", func(t *testing.T) {
		s, _ := newSignIn()
		first, err := s.Token(t.Context(), backendURL, provider, How{}, false)
		if err != nil {
			t.Fatal(err)
		}
		if _, username, err := s.Silent(t.Context(), backendURL); err != nil || username != env.Alice {
			t.Errorf("kept for %q: %v", username, err)
		}
		s.OpenBrowser = nil // nobody is asked
		if second, err := s.Token(t.Context(), backendURL, provider, How{}, true); err != nil || second == first {
			t.Errorf("renewed: %v, another one: %t", err, second != first)
		}
	})
	t.Run("with a device code", func(t *testing.T) {
		s, out := newSignIn()
		done := make(chan error, 1)
		go func() {
			done <- z.Browser(t.Context(), env.Alice, waitFor(t.Context(), out, regexp.MustCompile(`https?://\S+`)))
		}()
		if _, err := s.Token(t.Context(), backendURL, provider, How{Device: true}, false); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		if _, username, err := s.Silent(t.Context(), backendURL); err != nil || username != env.Alice {
			t.Errorf("kept for %q: %v", username, err)
		}
	})
}
