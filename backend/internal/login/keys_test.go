package login

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/coreos/go-oidc/v3/oidc/oidctest"

	"gitbind.dev/backend/internal/refusal"
)

func TestH7_ForgedTokensFetchNoKeys(t *testing.T) {
	i := newIssuer(t)
	v := verifier(t, config(i.url))
	waitReady(t, v)
	stranger := newKey(t)
	start := time.Now()
	for n := range 200 {
		kid := "k" // our issuer's, and a signature that is not
		if n%2 == 0 {
			kid = fmt.Sprint("unknown-", n)
		}
		_, err := v.Verify(t.Context(), oidctest.SignIDToken(stranger, kid, oidc.RS256, i.claimsOf(nil)))
		refused(t, kid, err, refusal.Unauthenticated, "signature is not the issuer's")
	}
	if got, most := i.fetched.Load(), 1+int64(time.Since(start)/keysEvery); got > most {
		t.Errorf("the keys were fetched %d times", got)
	}
	if _, err := v.Verify(t.Context(), i.token(nil)); err != nil {
		t.Errorf("a good token: %v", err)
	}
}

// answers plays an issuer's server.
type answers struct {
	status  int
	err     error
	fetched int
}

func (a *answers) RoundTrip(*http.Request) (*http.Response, error) {
	a.fetched++
	if a.err != nil {
		return nil, a.err
	}
	return &http.Response{StatusCode: a.status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(fmt.Sprint(a.fetched)))}, nil
}

func TestH7_KeysAreFetchedAgainAfterAWhileAndSoonerAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &answers{status: http.StatusOK}
		k := &keysTransport{client: &http.Client{Transport: server}, every: keysEvery, again: keysAgain}
		get := func(after time.Duration, want string) {
			t.Helper()
			time.Sleep(after)
			r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://issuer/keys", nil)
			resp, err := k.RoundTrip(r)
			if err != nil {
				if !strings.HasSuffix(err.Error(), want) {
					t.Errorf("got %v, want %s", err, want)
				}
				return
			}
			defer resp.Body.Close()
			if b, _ := io.ReadAll(resp.Body); string(b) != want {
				t.Errorf("got %s, want %s", b, want)
			}
		}
		get(0, "1")
		get(keysEvery-time.Second, "1")
		get(2*time.Second, "2")
		server.err = errors.New("down")
		get(keysEvery+time.Second, "down")
		server.err = nil
		get(keysAgain/2, "down")
		get(keysAgain, "4")
		server.status = http.StatusBadGateway
		get(keysEvery+time.Second, "5")
		server.status = http.StatusOK
		get(keysAgain+time.Second, "6")
		get(time.Second, "6")
	})
}

func TestH6_WhoAsksForKeysIsNotLedAwayInClear(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	for at, words := range map[string]string{"http://keys.example.com/": "not https", "/keys": "in circles", "/keys?moved": ""} {
		i.keysAt.Store(&at)
		v := verifier(t, config(i.url))
		waitReady(t, v)
		_, err := v.Verify(t.Context(), i.token(nil))
		if cause := errors.Unwrap(err); (err == nil) != (words == "") || err != nil && (cause == nil || !strings.Contains(cause.Error(), words)) {
			t.Errorf("%s: %v: %v, want %q", at, err, cause, words)
		}
	}
}
