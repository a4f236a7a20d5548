// Package controlplane speaks with a control plane's backend over HTTP, for a
// person who signs in.
//
// It sends the person's token to the backend's own URL and nowhere else: it
// follows no redirect to another host.
package controlplane

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/konnector/internal/cli/output"
	"gitbind.dev/konnector/internal/cli/session"
	"gitbind.dev/konnector/internal/cli/signin"
)

// maxAnswer is more than any answer has.
const maxAnswer = 8 << 20

// Refused is a backend's refusal.
type Refused struct {
	Status int
	// Message is the backend's, for the person.
	Message string
	// passing is whether the backend says that the same request may be right later.
	passing bool
}

func (r *Refused) Error() string { return r.Message }

// Client speaks with one backend.
type Client struct {
	url   string
	http  *http.Client
	token func(ctx context.Context, renew bool) (string, error)
}

// URL is the backend's.
func (c *Client) URL() string { return c.url }

// Ask asks a backend how to sign in there. The URL has the form of
// session.BackendURL.
func Ask(ctx context.Context, backendURL string, s *signin.SignIn, how signin.How) (restapi.Info, error) {
	_, info, err := ask(ctx, backendURL, s, how)
	return info, err
}

// Open asks the backend how to sign in, makes sure that the person means to, and
// signs in.
func Open(ctx context.Context, backendURL string, s *signin.SignIn, how signin.How) (*Client, error) {
	c, info, err := ask(ctx, backendURL, s, how)
	if err != nil {
		return nil, err
	}
	provider := signin.Provider{Issuer: info.Issuer, ClientID: info.ClientID, Scopes: info.Scopes}
	if err := s.Agree(ctx, backendURL, provider, how); err != nil {
		return nil, err
	}
	c.token = func(ctx context.Context, renew bool) (string, error) {
		return s.Token(ctx, backendURL, provider, how, renew)
	}
	_, err = c.token(ctx, false)
	return c, err
}

func ask(ctx context.Context, backendURL string, s *signin.SignIn, how signin.How) (*Client, restapi.Info, error) {
	var info restapi.Info
	if !how.PlainHTTP && !session.Private(backendURL) {
		return nil, info, fmt.Errorf("%s is not https: anybody on the way could read your sign-in. Give the https URL, or allow it with --allow-http", backendURL)
	}
	c := &Client{url: backendURL, http: sameHost(s.HTTP)}
	if err := c.do(ctx, http.MethodGet, "/v1/info", "", nil, &info); err != nil {
		return nil, info, fmt.Errorf("ask %s who signs people in: %w", backendURL, err)
	}
	if info.Issuer == "" || info.ClientID == "" {
		return nil, info, fmt.Errorf("%s names nobody who signs people in: is it the URL of a gitbind backend?", backendURL)
	}
	return c, info, nil
}

// sameHost is an HTTP client that is not led elsewhere with a token.
func sameHost(base *http.Client) *http.Client {
	c := *base
	c.CheckRedirect = func(next *http.Request, via []*http.Request) error {
		if next.URL.Scheme != via[0].URL.Scheme || next.URL.Host != via[0].URL.Host {
			return fmt.Errorf("it sends to %s: give the URL that it is at", next.URL.Host)
		}
		if len(via) > 5 {
			return errors.New("it sends in circles")
		}
		return nil
	}
	return &c
}

// Clusters are those of the person who is signed in.
func (c *Client) Clusters(ctx context.Context) ([]restapi.Cluster, error) {
	var out []restapi.Cluster
	return out, c.call(ctx, http.MethodGet, "/v1/clusters", nil, &out)
}

// Connect makes a cluster known, or known again, and gives it a credential.
func (c *Client) Connect(ctx context.Context, r restapi.ConnectRequest) (restapi.Cluster, error) {
	var out restapi.Cluster
	if err := c.call(ctx, http.MethodPost, "/v1/clusters", r, &out); err != nil {
		return out, err
	}
	if out.ID == "" || out.RepositoryURL == "" || out.Credential == nil {
		return out, fmt.Errorf("%s gave no repository or no credential: is its version older than this plugin's?", c.url)
	}
	return out, nil
}

// Catalog is what the person may bind.
func (c *Client) Catalog(ctx context.Context) ([]restapi.Offer, error) {
	var out []restapi.Offer
	return out, c.call(ctx, http.MethodGet, "/v1/catalog", nil, &out)
}

// Bind grants an offer to a cluster.
func (c *Client) Bind(ctx context.Context, clusterID, offer string) (restapi.Binding, error) {
	var out restapi.Binding
	return out, c.call(ctx, http.MethodPost, "/v1/clusters/"+url.PathEscape(clusterID)+"/bindings", restapi.BindRequest{Offer: offer}, &out)
}

// call sends a request as the person; when the backend does not take the token,
// once more with a new one.
func (c *Client) call(ctx context.Context, method, path string, in, out any) error {
	token, err := c.token(ctx, false)
	if err != nil {
		return err
	}
	err = c.do(ctx, method, path, token, in, out)
	var refused *Refused
	if !errors.As(err, &refused) || refused.Status != http.StatusUnauthorized {
		return err
	}
	renewed, err := c.token(ctx, true)
	if err != nil {
		return err
	}
	if renewed == token {
		return refused
	}
	return c.do(ctx, method, path, renewed, in, out)
}

// A request that the backend cannot serve just now is sent again, within three seconds.
const (
	tries     = 5
	firstWait = 200 * time.Millisecond
)

func (c *Client) do(ctx context.Context, method, path, token string, in, out any) error {
	wait := backoff.ExponentialBackOff{InitialInterval: firstWait, Multiplier: 2, RandomizationFactor: 0.3, MaxInterval: 10 * firstWait}
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := c.once(ctx, method, path, token, in, out)
		var refused *Refused
		if errors.As(err, &refused) && refused.passing {
			return struct{}{}, err
		}
		return struct{}{}, backoff.Permanent(err)
	}, backoff.WithBackOff(&wait), backoff.WithMaxTries(tries))
	return err
}

// withHeader is an answer of which the header is read, too.
type withHeader struct {
	header http.Header
	body   any
}

func (c *Client) once(ctx context.Context, method, path, token string, in, out any) error {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(data)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.url+path, body)
	if err != nil {
		return err
	}
	request.Header.Set("Accept", "application/json")
	if in != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return unreachable(c.url, err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return unreachable(c.url, err)
	}
	if response.StatusCode >= http.StatusBadRequest {
		return refusal(c.url, response, data)
	}
	if whole, ok := out.(*withHeader); ok {
		whole.header, out = response.Header, whole.body
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("%s did not answer as a gitbind backend does: check the URL", c.url)
	}
	return nil
}

// ErrUnreachable says that a backend cannot be reached, or has not answered.
var ErrUnreachable = errors.New("cannot be reached")

func unreachable(backendURL string, err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err // without method and path
	}
	return fmt.Errorf("%s %w: %w", backendURL, ErrUnreachable, signin.WithAdvice(err))
}

func refusal(backendURL string, response *http.Response, data []byte) error {
	var said restapi.Error
	if json.Unmarshal(data, &said) != nil || said.Message == "" {
		said.Message = fmt.Sprintf("%s answered %s: check the URL", backendURL, strings.ToLower(response.Status))
	}
	passing := (response.StatusCode == http.StatusServiceUnavailable || response.StatusCode == http.StatusTooManyRequests) && response.Header.Get("Retry-After") != ""
	return &Refused{Status: response.StatusCode, Message: output.Line(said.Message), passing: passing}
}
