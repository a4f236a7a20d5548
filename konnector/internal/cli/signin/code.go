package signin

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

const callbackPath = "/callback"

// withBrowser is the authorization code flow with PKCE: the browser comes back
// to a port of this machine.
func (i *issuer) withBrowser(ctx context.Context, how How) (token, error) {
	listeners, port, err := loopback(ctx)
	if err != nil {
		return token{}, fmt.Errorf("sign in: listen for the browser: %w (--device needs no port)", err)
	}
	config := i.config
	// By name, not as 127.0.0.1: that is what providers let public clients use.
	config.RedirectURL = "http://localhost:" + strconv.Itoa(port) + callbackPath
	state, nonce, verifier := random(), random(), oauth2.GenerateVerifier()
	callback := &callback{issuer: i.name, state: state, done: make(chan answer, 1)}
	server := &http.Server{Handler: callback, ReadHeaderTimeout: 10 * time.Second}
	for _, l := range listeners {
		// Serve ends with Close, below; without a port the wait times out.
		go func() { _ = server.Serve(l) }()
	}
	defer shutDown(server)

	address := config.AuthCodeURL(state, oidc.Nonce(nonce), oauth2.S256ChallengeOption(verifier))
	i.tell("To sign in, open this address in your browser:\n\n  %s\n\n", address)
	if !how.NoBrowser {
		if err := i.open(ctx, address); err == nil {
			i.tell("(It should have opened by itself.)\n")
		}
	}
	code, err := callback.wait(ctx)
	if err != nil {
		return token{}, err
	}
	ctx = i.client(ctx)
	got, err := config.Exchange(ctx, code, oauth2.VerifierOption(verifier))
	if err != nil {
		return token{}, fmt.Errorf("sign in: exchange the code at %s: %w", i.name, said(err))
	}
	return i.verify(ctx, got, nonce)
}

// loopback listens on a free port of 127.0.0.1 and, where it can, on the same
// of ::1: "localhost" may be either to a browser.
func loopback(ctx context.Context) ([]net.Listener, int, error) {
	var lc net.ListenConfig
	v4, err := lc.Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, 0, err
	}
	port := v4.Addr().(*net.TCPAddr).Port
	listeners := []net.Listener{v4}
	if v6, err := lc.Listen(ctx, "tcp6", net.JoinHostPort("::1", strconv.Itoa(port))); err == nil {
		listeners = append(listeners, v6)
	}
	return listeners, port, nil
}

// shutDown lets the last page reach the browser.
func shutDown(server *http.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if server.Shutdown(ctx) != nil {
		_ = server.Close()
	}
}

type answer struct {
	code string
	err  error
}

// callback takes the one redirect that carries our state. Others get an error
// page and end nothing: any page in the browser can make them.
type callback struct {
	issuer, state string
	done          chan answer
}

func (c *callback) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Security-Policy", "default-src 'none'")
	w.Header().Set("Referrer-Policy", "no-referrer")
	query := r.URL.Query()
	if r.Method != http.MethodGet || r.URL.Path != callbackPath || subtle.ConstantTimeCompare([]byte(query.Get("state")), []byte(c.state)) != 1 {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, "<!doctype html><title>gitbind</title><p>This is not the sign-in that kubectl gitbind waits for.")
		return
	}
	got := answer{code: query.Get("code"), err: c.refusal(query)}
	if got.err != nil {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, "<!doctype html><title>gitbind</title><p>You are not signed in. The terminal says why.")
	} else {
		fmt.Fprint(w, "<!doctype html><title>gitbind</title><p>You are signed in. You can close this window and go back to the terminal.")
	}
	select {
	case c.done <- got:
	default: // a reload of the page
	}
}

func (c *callback) refusal(query url.Values) error {
	// RFC 9207: an issuer that sent people on to another one gets no code of its.
	if from := query.Get("iss"); from != "" && from != c.issuer {
		return fmt.Errorf("sign in: %s sent the browser on to %.200q, another issuer, which has answered: its code is not passed on", c.issuer, from)
	}
	if code := query.Get("error"); code != "" {
		return fmt.Errorf("sign in: the issuer said: %q", code+" "+query.Get("error_description"))
	}
	if query.Get("code") == "" {
		return errors.New("sign in: the issuer sent the browser back without a code: try again")
	}
	return nil
}

func (c *callback) wait(ctx context.Context) (string, error) {
	select {
	case a := <-c.done:
		return a.code, a.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}
