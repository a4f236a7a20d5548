package controlplane

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/konnector/internal/cli/session"
	"gitbind.dev/konnector/internal/cli/signin"
	"gitbind.dev/konnector/internal/cli/terminal"
	"gitbind.dev/test/env"
)

const realURL = "https://gitbind.example.com"

// hostile is a backend that names the issuer and the client of another control plane,
// and keeps every token that it gets.
type hostile struct {
	url, address     string
	issuer, clientID string
	mu               sync.Mutex
	tokens           []string
}

func newHostile(t *testing.T, issuer, clientID string) *hostile {
	t.Helper()
	h := &hostile{issuer: issuer, clientID: clientID}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if token := r.Header.Get("Authorization"); token != "" {
			h.mu.Lock()
			h.tokens = append(h.tokens, token)
			h.mu.Unlock()
		}
		if r.URL.Path == "/v1/info" {
			fmt.Fprintf(w, `{"version":"v1","issuer":%q,"clientID":%q}`, h.issuer, h.clientID)
			return
		}
		fmt.Fprint(w, "[]")
	}))
	t.Cleanup(server.Close)
	h.url, h.address = server.URL, server.Listener.Addr().String()
	return h
}

func (h *hostile) connection(url string) *v1alpha1.Connection {
	return &v1alpha1.Connection{ObjectMeta: metav1.ObjectMeta{Name: "default"}, Spec: v1alpha1.ConnectionSpec{BackendURL: url}}
}

// person is somebody with a kubeconfig of the hostile's cluster and a browser in which
// the issuer knows them already.
type person struct {
	Access
	opened int
}

func newPerson(t *testing.T, dex *env.Dex, h *hostile) *person {
	t.Helper()
	p := &person{}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if strings.HasSuffix(address, ".example.com:80") {
			address = h.address
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	var browsers sync.WaitGroup
	t.Cleanup(browsers.Wait)
	p.SignIn = &signin.SignIn{
		Sessions: session.Store{Dir: filepath.Join(t.TempDir(), "sessions")},
		HTTP:     &http.Client{Transport: transport, Timeout: time.Minute},
		Out:      new(strings.Builder), Now: time.Now,
		OpenBrowser: func(ctx context.Context, address string) error {
			p.opened++
			browsers.Go(func() { _ = dex.Browser(ctx, env.Alice, address) })
			return nil
		},
	}
	return p
}

// signedInAtTheRealOne is what an earlier sign-in there has left.
func (p *person) signedInAtTheRealOne(t *testing.T, dex *env.Dex) {
	t.Helper()
	if err := p.SignIn.Sessions.Save(session.Session{
		BackendURL: realURL, Issuer: dex.Issuer, ClientID: dex.ClientID, Username: env.Alice, IDToken: "REAL", Expiry: time.Now().Add(time.Hour),
	}); err != nil {
		t.Fatal(err)
	}
}

func (p *person) catalog(ctx context.Context, connection *v1alpha1.Connection) error {
	client, err := p.Of(ctx, connection)
	if err == nil {
		_, err = client.Catalog(ctx)
	}
	return err
}

func (p *person) refused(t *testing.T, h *hostile, err error, words string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), words) {
		t.Errorf("error is %v, want %q", err, words)
	}
	if len(h.tokens) > 0 || p.opened > 0 {
		t.Errorf("the backend got %d tokens, the browser was opened %d times", len(h.tokens), p.opened)
	}
}

func TestH5_AHostileBackendOfAConnectionGetsNoToken(t *testing.T) {
	t.Parallel()
	dex := env.StartForTest(t, env.Options{Clusters: []string{}, Dex: true}).Dex

	t.Run("in clear", func(t *testing.T) {
		h := newHostile(t, dex.Issuer, dex.ClientID)
		p := newPerson(t, dex, h)
		p.refused(t, h, p.catalog(t.Context(), h.connection("http://gitbind.example.com")), "--allow-http")
	})
	t.Run("where the person never was", func(t *testing.T) {
		h := newHostile(t, dex.Issuer, dex.ClientID)
		p := newPerson(t, dex, h)
		p.refused(t, h, p.catalog(t.Context(), h.connection(h.url)), "--trust-backend "+h.url)
	})
	t.Run("a pipeline's token", func(t *testing.T) {
		h := newHostile(t, dex.Issuer, dex.ClientID)
		p := newPerson(t, dex, h)
		p.How.Token = "PIPELINE"
		p.refused(t, h, p.catalog(t.Context(), h.connection(h.url)), "--trust-backend "+h.url)
	})
	t.Run("with the client of another control plane", func(t *testing.T) {
		h := newHostile(t, dex.Issuer, dex.ClientID)
		p := newPerson(t, dex, h)
		p.signedInAtTheRealOne(t, dex)
		_, err := Open(t.Context(), h.url, p.SignIn, p.How)
		p.refused(t, h, err, realURL)
	})
	t.Run("with the client of another control plane, of an issuer that sends people on to its", func(t *testing.T) {
		h := newHostile(t, "https://dex.example.org", dex.ClientID)
		p := newPerson(t, dex, h)
		p.signedInAtTheRealOne(t, dex)
		p.How.TrustBackend = h.url
		p.refused(t, h, p.catalog(t.Context(), h.connection(h.url)), realURL)
	})
	t.Run("without anybody to ask", func(t *testing.T) {
		h := newHostile(t, dex.Issuer, dex.ClientID)
		p := newPerson(t, dex, h)
		p.How.Silent = true
		p.refused(t, h, p.catalog(t.Context(), h.connection(h.url)), session.ErrNone.Error())
	})
	t.Run("declined", func(t *testing.T) {
		h := newHostile(t, dex.Issuer, dex.ClientID)
		p := newPerson(t, dex, h)
		p.answers(t, false)
		p.refused(t, h, p.catalog(t.Context(), h.connection(h.url)), terminal.ErrDeclined.Error())
		p.How.Silent = true
		p.refused(t, h, p.catalog(t.Context(), h.connection(h.url)), session.ErrNone.Error())
	})
}

// answers makes the person answer each question so.
func (p *person) answers(t *testing.T, answer bool) (asked *[]string) {
	t.Helper()
	asked = &[]string{}
	p.SignIn.Confirm = func(_ context.Context, question string) (bool, error) {
		*asked = append(*asked, question)
		return answer, nil
	}
	return asked
}

func TestH5_ABackendIsAskedAboutOnceAndWhenWhatItSaysIsOtherwise(t *testing.T) {
	t.Parallel()
	now := time.Now()
	h := newHostile(t, "https://dex.example.com", "ours")
	p := newPerson(t, nil, h)
	p.How.Token = "GIVEN"
	asked := p.answers(t, true)
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	for _, c := range []struct {
		what       string
		connection *v1alpha1.Connection
		ca         []byte
		change     func()
		questions  int
	}{
		{"first", h.connection(h.url), nil, nil, 1},
		{"again", h.connection(h.url), nil, nil, 1},
		{"by another spelling", h.connection(h.url + "/"), nil, nil, 1},
		{"with a CA of the Connection's", h.connection(h.url), ca, nil, 2},
		{"with that CA again", h.connection(h.url), ca, nil, 2},
		{"with another client", h.connection(h.url), nil, func() { h.clientID = "theirs" }, 3},
		{"with another issuer", h.connection(h.url), nil, func() { h.issuer = "https://other.example.com" }, 4},
		{"that one again", h.connection(h.url), nil, nil, 4},
		{"when it was forgotten", h.connection(h.url), nil, func() { _ = p.SignIn.Sessions.Remove(h.url) }, 5},
	} {
		if c.change != nil {
			c.change()
		}
		c.connection.Spec.CABundle = c.ca
		if err := p.catalog(t.Context(), c.connection); err != nil || len(*asked) != c.questions {
			t.Errorf("%s: asked %d times, want %d: %v", c.what, len(*asked), c.questions, err)
		}
	}
	// A sign-in that was made under the certificates of one Connection is not used
	// under those of another.
	if err := p.SignIn.Sessions.Save(session.Session{BackendURL: h.url, Issuer: h.issuer, ClientID: h.clientID, Username: env.Alice, IDToken: "SAVED", Expiry: now.Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	connection := h.connection(h.url)
	if token, _, err := p.Saved(t.Context(), connection); err != nil || token != "SAVED" {
		t.Errorf("%q, %v", token, err)
	}
	connection.Spec.CABundle = ca
	if token, _, err := p.Saved(t.Context(), connection); !errors.Is(err, session.ErrNone) || token != "" {
		t.Errorf("under other certificates: %q, %v", token, err)
	}
}

func TestH5_WhoGivesTheURLMeansIt(t *testing.T) {
	t.Parallel()
	h := newHostile(t, "https://dex.example.com", "ours")
	for what, how := range map[string]signin.How{
		"as the command's own argument":       {Token: "GIVEN"},
		"as the one that a Connection may be": {Token: "GIVEN", Connection: "default", TrustBackend: h.url},
	} {
		p := newPerson(t, nil, h)
		if _, err := Open(t.Context(), h.url, p.SignIn, how); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		// It is an answer for later, too.
		p.How.Token = "GIVEN"
		if err := p.catalog(t.Context(), h.connection(h.url)); err != nil {
			t.Errorf("%s, by a Connection later: %v", what, err)
		}
	}
	p := newPerson(t, nil, h)
	how := signin.How{Token: "GIVEN", Connection: "default", TrustBackend: h.url + "/other"}
	if _, err := Open(t.Context(), h.url, p.SignIn, how); err == nil {
		t.Error("another URL than the one that is meant is taken")
	}
}

// A platform's certificates are often of an authority of its own.
func TestTheCertificatesGivenWithAURLAreKeptWithTheSignIn(t *testing.T) {
	t.Parallel()
	info, err := json.Marshal(restapi.Info{Issuer: "https://dex.example.com", ClientID: "ours"})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(info) }))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	p := newPerson(t, nil, nil)
	p.How.Token = "GIVEN"
	open := func(signIn *signin.SignIn) error {
		_, _, err := Access{SignIn: signIn, How: p.How}.Open(t.Context(), server.URL, "")
		return err
	}
	if err := open(p.SignIn); err == nil || !strings.Contains(err.Error(), "cannot be reached: its certificate is not trusted: ") || !strings.Contains(err.Error(), "--ca-file") {
		t.Errorf("without its authority: %v", err)
	}
	trusting, err := p.SignIn.Trusting(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	if err != nil {
		t.Fatal(err)
	}
	if err := open(trusting); err != nil {
		t.Errorf("with it: %v", err)
	}
	if err := open(p.SignIn); err != nil {
		t.Errorf("with what was kept: %v", err)
	}
}

func TestH5_AControlPlaneOnThisMachineKeepsItsClientFromNobody(t *testing.T) {
	t.Parallel()
	h := newHostile(t, "https://dex.example.com", "ours")
	p := newPerson(t, nil, h)
	if err := p.SignIn.Sessions.Save(session.Session{BackendURL: "http://127.0.0.1:1", Issuer: "https://dex.example.com", ClientID: "ours", Username: env.Alice}); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), h.url, p.SignIn, signin.How{Token: "GIVEN"}); err != nil {
		t.Error(err)
	}
}
