package signin

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"gitbind.dev/backend/internal/login"
)

// goodCodes is an issuer that takes one code, as often as it comes.
type goodCodes struct {
	tokenURL string
	asked    atomic.Int64
}

func newGoodCodes(t *testing.T) *goodCodes {
	t.Helper()
	g := &goodCodes{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.asked.Add(1)
		w.Header().Set("Content-Type", "application/json")
		if r.FormValue("code") != "good" {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":"invalid_grant"}`)
			return
		}
		_, _ = io.WriteString(w, `{"access_token":"x","token_type":"bearer","id_token":"alice"}`)
	}))
	t.Cleanup(s.Close)
	g.tokenURL = s.URL
	return g
}

func (g *goodCodes) URL() string        { return g.tokenURL }
func (g *goodCodes) HTTP() *http.Client { return http.DefaultClient }
func (g *goodCodes) Endpoint() (oauth2.Endpoint, error) {
	return oauth2.Endpoint{AuthURL: "https://issuer.example.com/auth", TokenURL: g.tokenURL}, nil
}
func (g *goodCodes) VerifySignIn(_ context.Context, raw, _, _ string) (login.Identity, error) {
	return login.Identity{Issuer: g.tokenURL, Subject: raw, Username: raw}, nil
}

// from is where a request comes from.
type from struct {
	scheme, address string
	// forwarded is what proxies say of that.
	forwarded string
}

func (f from) get(h http.Handler, path string, cookies ...*http.Cookie) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", f.scheme+"://gitbind.example.com"+path, nil)
	r.RemoteAddr = f.address
	if f.forwarded != "" {
		r.Header.Set("X-Forwarded-For", f.forwarded)
	}
	for _, c := range cookies {
		r.AddCookie(c)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// begin gives the cookie of a flow, and where its callback is with a code.
func (f from) begin(t *testing.T, h http.Handler) (flow *http.Cookie, callback string) {
	t.Helper()
	r := f.get(h, signInPath)
	to, err := url.Parse(r.Header().Get("Location"))
	if err != nil || r.Code != http.StatusSeeOther {
		t.Fatal(r.Code, err)
	}
	if flow, err = http.ParseSetCookie(r.Header().Get("Set-Cookie")); err != nil {
		t.Fatal(err)
	}
	return flow, callbackPath + "?state=" + to.Query().Get("state") + "&code="
}

func TestH7_WhoMakesUpCodesKeepsNobodyElseFromSigningIn(t *testing.T) {
	t.Parallel()
	const proxy = "10.0.0.1:80"
	for name, c := range map[string]struct {
		stranger func(try int) from
		alice    from
	}{
		"from one address": {
			func(try int) from { return from{"https", fmt.Sprintf("192.0.2.1:%d", 1024+try), ""} },
			from{"https", "192.0.2.2:1024", ""},
		},
		"from one network of IPv6": {
			func(try int) from { return from{"https", fmt.Sprintf("[2001:db8:0:%x::1]:1024", try), ""} },
			from{"https", "[2001:db8:1::1]:1024", ""},
		},
		"and says that it is a proxy": {
			func(try int) from { return from{"https", "192.0.2.1:1024", fmt.Sprintf("198.51.100.%d", try)} },
			from{"https", "192.0.2.2:1024", ""},
		},
		"before the same proxy, which ends TLS": {
			func(try int) from { return from{"http", proxy, fmt.Sprintf("198.51.100.%d, 192.0.2.1", try)} },
			from{"http", proxy, "192.0.2.2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			issuer := newGoodCodes(t)
			s := &SignIn{Issuer: issuer, ClientID: "web", PublicURL: "https://gitbind.example.com", Seal: seal(t), Exchanges: NewExchanges(), Log: slog.New(slog.DiscardHandler), Now: time.Now}
			h := http.NewServeMux()
			s.Mount(h)
			flow, callback := c.stranger(0).begin(t, h)
			kept := 0
			for try := range 200 {
				if c.stranger(try).get(h, callback+"guess", flow).Code == http.StatusServiceUnavailable {
					kept++
				}
			}
			if asked := issuer.asked.Load(); kept == 0 || asked > 100 {
				t.Errorf("the issuer was asked %d times, and %d tries were refused before that", asked, kept)
			}
			for range 10 {
				flow, callback := c.alice.begin(t, h)
				if r := c.alice.get(h, callback+"good", flow); r.Code != http.StatusSeeOther || !strings.Contains(r.Header().Get("Set-Cookie"), "gitbind-") {
					t.Fatalf("Alice got %d", r.Code)
				}
			}
		})
	}
}
