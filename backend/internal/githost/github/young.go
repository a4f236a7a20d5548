package github

import (
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	// youth is how long after it was made a token may be refused by a part of GitHub that does
	// not know it yet, and youngWait how long to wait before the request is sent again, once.
	youth     = time.Minute
	youngWait = time.Second
)

// young sends requests, and those again that are refused for a token that was just made.
type young struct {
	base http.RoundTripper
	now  func() time.Time

	mu   sync.Mutex
	made map[string]time.Time
}

// add notes that a token was made now.
func (y *young) add(token string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.made == nil {
		y.made = map[string]time.Time{}
	}
	for t, at := range y.made {
		if y.now().Sub(at) >= youth {
			delete(y.made, t)
		}
	}
	y.made[token] = y.now()
}

func (y *young) has(r *http.Request) bool {
	_, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	y.mu.Lock()
	defer y.mu.Unlock()
	at, ok := y.made[token]
	return ok && y.now().Sub(at) < youth
}

func (y *young) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := y.base.RoundTrip(r)
	if err != nil || answer.StatusCode != http.StatusUnauthorized || !y.has(r) || r.Body != nil && r.GetBody == nil {
		return answer, err
	}
	again := r.Clone(r.Context())
	if r.GetBody != nil {
		if again.Body, err = r.GetBody(); err != nil {
			return answer, nil //nolint:nilerr // it was refused
		}
	}
	answer.Body.Close()
	select {
	case <-time.After(youngWait):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	return y.base.RoundTrip(again)
}
