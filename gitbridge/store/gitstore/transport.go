package gitstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode"

	"gitbind.dev/gitbridge/store"
)

// transport makes requests to one repository.
type transport struct {
	url         string
	client      *http.Client
	credentials func(context.Context) (user, password string, err error)
	limit       int64
	increment   int
	stall       time.Duration
	// most is how long a request may take in all.
	most     time.Duration
	throttle *throttle

	mu sync.Mutex
	// known is the credential that was given last, if there is one.
	known *credential
	// capabilities are those that upload-pack said it has, once it did.
	capabilities map[string]bool
	// unlimited says that the remote refused to leave out large files.
	unlimited bool
}

type credential struct{ user, password string }

// Services of Git's smart protocol.
const (
	uploadPack  = "git-upload-pack"
	receivePack = "git-receive-pack"
)

// errTooMuch says that an answer was longer than allowed.
var errTooMuch = errors.New("the remote's answer is too large")

// errSilent says that the remote did not answer.
var errSilent = errors.New("no answer")

// refs asks a service for what it has. The caller closes the answer.
func (t *transport) refs(ctx context.Context, service string) (io.ReadCloser, error) {
	return t.do(ctx, func(ctx context.Context) (*http.Request, error) {
		return http.NewRequestWithContext(ctx, http.MethodGet, t.url+"/info/refs?service="+service, nil)
	}, "application/x-"+service+"-advertisement")
}

// post asks a service to do something. The caller closes the answer.
func (t *transport) post(ctx context.Context, service string, body []byte) (io.ReadCloser, error) {
	return t.do(ctx, func(ctx context.Context) (*http.Request, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url+"/"+service, bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		req.Header.Set("Content-Type", "application/x-"+service+"-request")
		req.Header.Set("Accept", "application/x-"+service+"-result")
		if service == uploadPack {
			// Not sent, but lets net/http try again when the server closed an
			// idle connection just then.
			req.Header["Idempotency-Key"] = nil
		}
		return req, nil
	}, "application/x-"+service+"-result")
}

// do makes a request, a second time with another credential if need be, and
// checks that it was Git that answered.
func (t *transport) do(ctx context.Context, newRequest func(context.Context) (*http.Request, error), contentType string) (io.ReadCloser, error) {
	for again := false; ; again = true {
		used, err := t.credential(ctx, again)
		if err != nil {
			return nil, err
		}
		res, err := t.once(ctx, newRequest, used)
		if err != nil {
			return nil, err
		}
		switch {
		case res.StatusCode == http.StatusOK && res.Header.Get("Content-Type") == contentType:
			return res.Body, nil
		case res.StatusCode == http.StatusUnauthorized && !again && t.credentials != nil:
			_ = res.Body.Close()
			continue
		}
		defer func() { _ = res.Body.Close() }()
		err = t.failure(res)
		if errors.Is(err, store.ErrUnauthorized) || errors.Is(err, store.ErrRepositoryNotFound) {
			// Hosts say either of a credential that is valid and lacks the right.
			t.forgetCredential()
		}
		return nil, err
	}
}

// forgetCredential has the next request use a new one.
func (t *transport) forgetCredential() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known = nil
}

// credential is the known one; a new one, if the last one was refused.
func (t *transport) credential(ctx context.Context, refused bool) (*credential, error) {
	if t.credentials == nil {
		return nil, nil
	}
	t.mu.Lock()
	known := t.known
	t.mu.Unlock()
	if known != nil && !refused {
		return known, nil
	}
	user, password, err := t.credentials(ctx)
	if err != nil {
		return nil, fmt.Errorf("get credential for the repository: %w", err)
	}
	known = &credential{user, password}
	t.mu.Lock()
	t.known = known
	t.mu.Unlock()
	return known, nil
}

// once makes one request. It is given up when the remote keeps silent.
func (t *transport) once(ctx context.Context, newRequest func(context.Context) (*http.Request, error), c *credential) (*http.Response, error) {
	if err := t.throttle.waitAsked(ctx, t.throttle.askedUntil()); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	// A remote that never falls silent and never ends must end, too.
	end := time.AfterFunc(t.most, func() { cancel(fmt.Errorf("%w that ended within %s", errSilent, t.most)) })
	context.AfterFunc(ctx, func() { end.Stop() })
	req, err := newRequest(ctx)
	if err != nil {
		cancel(nil)
		return nil, err
	}
	req.Header.Set("User-Agent", "git/gitbind")
	if c != nil {
		req.SetBasicAuth(c.user, c.password)
	}
	timer := time.AfterFunc(t.stall, func() {
		cancel(fmt.Errorf("%w for %s", errSilent, t.stall))
	})
	res, err := t.client.Do(req)
	if err != nil {
		timer.Stop()
		err = withCause(ctx, err)
		t.throttle.noteNoAnswer(ctx)
		cancel(nil)
		return nil, err
	}
	res.Body = &body{ReadCloser: res.Body, ctx: ctx, cancel: cancel, timer: timer, stall: t.stall, left: t.limit, throttle: t.throttle}
	if d, ok := retryAfter(res, time.Now()); ok {
		t.throttle.noteRetryAfter(d)
	}
	if res.StatusCode >= http.StatusInternalServerError || res.StatusCode == http.StatusTooManyRequests {
		res.Body.(*body).failed = true
	}
	return res, nil
}

// withCause tells why a context ended.
func withCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// body is an answer that is neither too long nor too slow.
type body struct {
	io.ReadCloser
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	stall  time.Duration
	left   int64
	// failed says that it is no answer, or not whole.
	failed   bool
	throttle *throttle
}

func (b *body) Read(p []byte) (int, error) {
	if b.left <= 0 {
		b.failed = true
		return 0, errTooMuch
	}
	b.timer.Reset(b.stall)
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		b.failed = true
		err = withCause(b.ctx, err)
	}
	return n, err
}

// Close reads the rest if it is short, so that the connection can be used
// again.
func (b *body) Close() error {
	_, _ = io.CopyN(io.Discard, b.ReadCloser, 4096)
	b.timer.Stop()
	if b.failed {
		b.throttle.noteNoAnswer(b.ctx)
	} else {
		b.throttle.noteAnswer()
	}
	err := b.ReadCloser.Close()
	b.cancel(nil)
	return err
}

// failure is what an answer means that is not Git's.
func (t *transport) failure(res *http.Response) error {
	words := statusWords(res)
	switch code := res.StatusCode; {
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		return fmt.Errorf("%w: %s", store.ErrUnauthorized, words)
	case code == http.StatusNotFound, code == http.StatusGone:
		return fmt.Errorf("%w: %s: %s", store.ErrRepositoryNotFound, t.url, words)
	case code >= 300 && code < 400:
		return fmt.Errorf("%w: %s redirects to %s, which is to be configured instead", store.ErrRepositoryNotFound, t.url, res.Header.Get("Location"))
	case code == http.StatusRequestEntityTooLarge, code == http.StatusUnprocessableEntity:
		return fmt.Errorf("%w: %s", store.ErrRejected, words)
	case code == http.StatusOK:
		return fmt.Errorf("%s does not answer as a Git repository, but with content of type %q", t.url, res.Header.Get("Content-Type"))
	}
	return fmt.Errorf("the remote answered %s", words)
}

// statusWords are the status and, if it is for people, the beginning of the
// text.
func statusWords(res *http.Response) string {
	words := res.Status
	if !strings.HasPrefix(res.Header.Get("Content-Type"), "text/plain") {
		return words
	}
	text, _ := io.ReadAll(io.LimitReader(res.Body, 1000))
	if s := oneLine(string(text)); s != "" {
		words += ": " + s
	}
	return words
}

// oneLine makes what others wrote fit for an error.
func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "?"), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
}
