package signin

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gitbind.dev/konnector/internal/cli/session"
)

// hostileIssuer says what a test wants in its discovery document, and in what it
// grants a device.
func hostileIssuer(t *testing.T, document, grant map[string]string) (url string) {
	t.Helper()
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	answer := func(pattern string, base, changed map[string]string) {
		all := map[string]any{"scopes_supported": []string{"openid"}, "expires_in": 60, "interval": 1}
		for key, value := range base {
			all[key] = value
		}
		for key, value := range changed {
			all[key] = strings.ReplaceAll(value, "ISSUER", server.URL)
		}
		mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(all)
		})
	}
	answer("/.well-known/openid-configuration", map[string]string{
		"issuer": server.URL, "authorization_endpoint": server.URL + "/auth", "token_endpoint": server.URL + "/token",
		"device_authorization_endpoint": server.URL + "/device", "jwks_uri": server.URL + "/keys",
	}, document)
	answer("/device", map[string]string{"device_code": "d", "user_code": "ABCD", "verification_uri": server.URL + "/code"}, grant)
	mux.Handle("/token", http.RedirectHandler("http://dex.example.com/token", http.StatusTemporaryRedirect))
	return server.URL
}

// signInAt begins a sign-in, and gives what was opened, what was printed and how it ended.
func signInAt(t *testing.T, issuer string, how How) (opened []string, out string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	text := &printed{}
	s := &SignIn{
		Sessions: session.Store{Dir: filepath.Join(t.TempDir(), "sessions")}, HTTP: &http.Client{Timeout: time.Minute}, Out: text, Now: time.Now,
		OpenBrowser: func(_ context.Context, address string) error {
			opened = append(opened, address)
			cancel()
			return nil
		},
	}
	_, err = s.Token(ctx, backendURL, Provider{Issuer: issuer, ClientID: "ours"}, how, false)
	return opened, text.String(), err
}

func TestH6_OnlyAddressesOfTheWebAreOpenedPrintedAndAsked(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"file:///etc/passwd", "vscode://file/x", "ms-msdt:/id PCWDiagnostic", "--help", "-x", "javascript:alert(1)", "//dex.example.com/auth",
		"http://dex.example.com/auth", "https://", "https://dex.example.com@evil.example.com/auth", "https://dex.example.com/\u202eauth",
		"https://dex.example.com/a b", "https://dex.example.com/\x1b[2J", "HTTPS:opaque", "/auth",
	} {
		for _, name := range []string{"authorization_endpoint", "token_endpoint", "device_authorization_endpoint", "jwks_uri", "userinfo_endpoint", "end_session_endpoint"} {
			issuer := hostileIssuer(t, map[string]string{name: address}, nil)
			for _, device := range []bool{false, true} {
				opened, out, err := signInAt(t, issuer, How{Device: device})
				if err == nil || !strings.Contains(err.Error(), name) || len(opened) > 0 || out != "" {
					t.Errorf("%s %q: opened %q, printed %q, error %v", name, address, opened, out, err)
				}
			}
		}
		for _, name := range []string{"verification_uri", "verification_uri_complete"} {
			_, out, err := signInAt(t, hostileIssuer(t, nil, map[string]string{name: address}), How{Device: true})
			if err == nil || !strings.Contains(err.Error(), name) || out != "" {
				t.Errorf("%s %q: printed %q, error %v", name, address, out, err)
			}
		}
	}
}

func TestH6_AnIssuerCannotSignInForAnotherClient(t *testing.T) {
	t.Parallel()
	for _, query := range []string{"client_id=another", "p=1&client_id=another", "redirect_uri=https://evil.example.com", "code_challenge=x", "STATE=x", "%63lient_id=another", "a;client_id=another"} {
		opened, out, err := signInAt(t, hostileIssuer(t, map[string]string{"authorization_endpoint": "ISSUER/auth?" + query}, nil), How{})
		if err == nil || !strings.Contains(err.Error(), "authorization_endpoint") || len(opened) > 0 || out != "" {
			t.Errorf("%s: opened %q, printed %q, error %v", query, opened, out, err)
		}
	}
	opened, _, err := signInAt(t, hostileIssuer(t, map[string]string{"authorization_endpoint": "ISSUER/auth?p=policy"}, nil), How{})
	if len(opened) != 1 || !strings.Contains(opened[0], "?p=policy&client_id=ours") {
		t.Errorf("a query of its own: opened %q, %v", opened, err)
	}
}

func TestH6_WhatAnIssuerSaysStaysOnItsLine(t *testing.T) {
	t.Parallel()
	_, out, _ := signInAt(t, hostileIssuer(t, nil, map[string]string{"user_code": "AB\nSigned in as admin.\x1b[2J\u202e\r\u009b"}), How{Device: true})
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "Signed in") {
			t.Errorf("a code makes a line of its own:\n%s", out)
		}
	}
	if strings.ContainsAny(out, "\x1b\u202e\r\u009b") {
		t.Errorf("printed %q", out)
	}
}

func TestH6_ASecretIsNotLedElsewhereInClear(t *testing.T) {
	t.Parallel()
	_, _, err := signInAt(t, hostileIssuer(t, nil, nil), How{Device: true})
	if err == nil || !strings.Contains(err.Error(), "dex.example.com/token") || !strings.Contains(err.Error(), "is not https") {
		t.Errorf("error is %v", err)
	}
}

func TestH6_TheBrowserIsGivenNothingElse(t *testing.T) {
	t.Setenv("BROWSER", "touch")
	for _, address := range []string{"--help", "file:///etc/passwd", filepath.Join(t.TempDir(), "made"), "", "https:x"} {
		if err := OpenBrowser(t.Context(), address); err == nil {
			t.Errorf("%q is opened", address)
		}
	}
}
