// Package client is how the APIs of Git hosts are asked: with a credential that goes to one
// host only, within a time, and not while the host wants to be left alone. It knows no API.
package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"gitbind.dev/backend/internal/githost"
)

// timeout bounds each request with its answer.
const timeout = 30 * time.Second

// New is a client for the API below a URL, of an account that has one rate limit there; observer
// is told of it by the account's name, and may be nil. Requests to elsewhere fail, redirects are
// answers, and an answer that says that a rate limit is used up is a githost.RateLimitError, as
// is each request until that ends; see ForCredentials.
func New(base, account string, observer Observer) *http.Client {
	sent := &observed{http.DefaultTransport.(*http.Transport).Clone(), account, observer}
	host := &limited{base: &known{base: sent}, now: time.Now, withheld: func() {
		if observer != nil {
			observer.Asked(account, Withheld)
		}
	}}
	if u, err := url.Parse(base); err == nil {
		host.scheme, host.name = u.Scheme, u.Host
	}
	return &http.Client{
		Timeout: timeout, Transport: host,
		// A redirect would take the credential elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Redirected is what it means that a host answers with a redirect from one URL to another: a
// repository was renamed or, where that leads to another host, the host moved.
func Redirected(from, to *url.URL) error {
	if from == nil || to == nil || from.Scheme == to.Scheme && from.Host == to.Host {
		return githost.ErrRenamed
	}
	return fmt.Errorf("the Git host is at %s://%s now: start the backend with that URL", to.Scheme, to.Host)
}

type forCredentials struct{}

// ForCredentials is a context of requests that make or end credentials. They wait until a rate
// limit ends only if that has refused such a request: agents depend on them, and a host may have
// other limits for what is read.
func ForCredentials(ctx context.Context) context.Context {
	return context.WithValue(ctx, forCredentials{}, true)
}

// limited sends requests to one host while that wants them.
type limited struct {
	base         http.RoundTripper
	scheme, name string
	now          func() time.Time
	// withheld is called for a request that is not sent.
	withheld func()

	mu sync.Mutex
	// credentials is for requests ForCredentials.
	others, credentials pause
}

func (l *limited) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != l.scheme || r.URL.Host != l.name {
		return nil, fmt.Errorf("%s://%s is not the Git host %s://%s: it gets no credential", r.URL.Scheme, r.URL.Host, l.scheme, l.name)
	}
	p := &l.others
	if r.Context().Value(forCredentials{}) != nil {
		p = &l.credentials
	}
	l.mu.Lock()
	until := p.until
	l.mu.Unlock()
	if l.now().Before(until) {
		l.withheld()
		return nil, &githost.RateLimitError{Until: until}
	}
	answer, err := l.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	now := l.now()
	until, refused := limit(answer, now)
	if refused {
		answer.Body.Close()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if refused {
		return nil, &githost.RateLimitError{Until: p.refused(r, until, now)}
	}
	p.taken(r)
	answer.Body = &bounded{answer.Body, githost.MaxAnswer}
	return answer, nil
}

// bounded reads an answer of which so many bytes are left to be read.
type bounded struct {
	io.ReadCloser
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, githost.ErrAnswer
	}
	return n, err
}

// body is an answer of which a part was read already.
type body struct {
	io.Reader
	io.Closer
}
