// Package notify listens to the backend's events, which tell that a branch
// moved, and announces to it what was pushed elsewhere. It never asks a repository:
// what it says is a hint, and may be late or missing.
package notify

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"gitbind.dev/gitbridge/store"
)

// Options say where to listen, and who is told.
type Options struct {
	// URL is the backend's address, for example https://gitbind.example.org.
	URL string
	// ClusterID names the ClusterBinding.
	ClusterID string
	// Credentials gives the HTTP basic credential; asked at every connection, and for
	// announcements when it was refused.
	Credentials func(ctx context.Context) (user, password string, err error)
	// Client makes the requests, and follows no redirects. It must have no overall
	// timeout. Default: one of its own.
	Client *http.Client
	// RootCAs are whom the default Client trusts; nil for the system's.
	RootCAs *x509.CertPool
	// OnEvent is told that a ref ("refs/heads/main") moved. It is also called
	// at every connection, with ref and hash "": events may have been missed,
	// so any ref may have moved. It must not block.
	OnEvent func(ref string, hash store.Hash)
	// OnError, if not nil, is told what does not work, at every try, and nil
	// when it works (again).
	OnError func(error)
	// Announcements, if not nil, are told to the backend meanwhile: where the repository
	// is on a host that tells the backend late of pushes, or not at all.
	Announcements *Announcements
	// Silence is how long the backend may say nothing, not even a comment.
	// Default: 45 seconds.
	Silence time.Duration
}

// event is the data of an event "ref".
type event struct {
	Ref  string     `json:"ref"`
	Hash store.Hash `json:"hash"`
}

const (
	retry    = 500 * time.Millisecond
	retryMax = 30 * time.Second
	// settled is how long a connection must have lasted for the next one to be
	// made at once.
	settled = 10 * time.Second
	maxLine = 64 << 10
)

// Listen calls OnEvent until ctx ends.
func Listen(ctx context.Context, o Options) {
	if o.Silence == 0 {
		o.Silence = 45 * time.Second
	}
	if o.OnError == nil {
		o.OnError = func(error) {}
	}
	if o.Client == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.DialContext = (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext
		t.TLSClientConfig = &tls.Config{RootCAs: o.RootCAs, MinVersion: tls.VersionTLS12}
		o.Client = &http.Client{Transport: t}
		defer t.CloseIdleConnections()
	}
	client := *o.Client
	// A redirect would take the credential elsewhere.
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	o.Client = &client
	if o.Announcements != nil {
		var announcing sync.WaitGroup
		defer announcing.Wait()
		announcing.Go(func() { o.announce(ctx) })
	}
	wait := newBackoff()
	for ctx.Err() == nil {
		start := time.Now()
		err := o.connect(ctx)
		if ctx.Err() != nil {
			return
		}
		o.OnError(fmt.Errorf("listen to %s: %w", o.URL, err))
		if time.Since(start) > settled {
			wait.Reset()
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait.NextBackOff()):
		}
	}
}

// errSilent says that not even comments come.
var errSilent = errors.New("the event stream is silent")

// connect listens until the connection ends, which is always an error.
func (o Options) connect(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	req, err := o.request(ctx, http.MethodGet, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "text/event-stream")
	alive := time.AfterFunc(o.Silence, func() { cancel(errSilent) })
	defer alive.Stop()
	res, err := o.Client.Do(req)
	if err != nil {
		return cause(ctx, err)
	}
	defer func() { _ = res.Body.Close() }()
	switch {
	case res.StatusCode == http.StatusUnauthorized, res.StatusCode == http.StatusForbidden:
		return fmt.Errorf("%w: %s", store.ErrUnauthorized, res.Status)
	case res.StatusCode != http.StatusOK:
		return fmt.Errorf("the backend answered %s", res.Status)
	case !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream"):
		return fmt.Errorf("the backend answered with %q, not with events", res.Header.Get("Content-Type"))
	}
	o.OnError(nil)
	o.OnEvent("", "")
	err = read(res.Body, func() { alive.Reset(o.Silence) }, func(name, data string) error {
		if name != "ref" {
			return nil
		}
		var e event
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return fmt.Errorf("event %.100q: %w", data, err)
		}
		if e.Ref != "" {
			o.OnEvent(e.Ref, e.Hash)
		}
		return nil
	})
	return cause(ctx, err)
}

// request is one about the events of the cluster.
func (o Options) request(ctx context.Context, method string, body io.Reader) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(o.URL, "/")+"/v1/events?cluster="+url.QueryEscape(o.ClusterID), body)
	if err != nil || o.Credentials == nil {
		return req, err
	}
	user, password, err := o.Credentials(ctx)
	if err != nil {
		return nil, fmt.Errorf("get credential: %w", err)
	}
	req.SetBasicAuth(user, password)
	return req, nil
}

func newBackoff() *backoff.ExponentialBackOff {
	return &backoff.ExponentialBackOff{InitialInterval: retry, Multiplier: 2, RandomizationFactor: 0.5, MaxInterval: retryMax}
}

func cause(ctx context.Context, err error) error {
	if c := context.Cause(ctx); c != nil {
		return c
	}
	return err
}

// read takes a stream of server-sent events apart, as far as the backend uses
// them: no ids, no retry times. It always ends with an error.
func read(r io.Reader, onLine func(), onEvent func(name, data string) error) error {
	lines := bufio.NewReaderSize(r, maxLine)
	name, data := "", []string(nil)
	size := 0
	for {
		raw, err := lines.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return errors.New("an event with too long a line")
		case err == io.EOF:
			return errors.New("the backend closed the event stream")
		case err != nil:
			return err
		}
		onLine()
		line := strings.TrimSuffix(strings.TrimSuffix(string(raw), "\n"), "\r")
		if line == "" {
			if len(data) > 0 {
				if err := onEvent(name, strings.Join(data, "\n")); err != nil {
					return err
				}
			}
			name, data, size = "", nil, 0
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "event":
			name = value
		case "data":
			if size += len(value); size > maxLine {
				return errors.New("an event with too much data")
			}
			data = append(data, value)
		}
	}
}
