package login

import (
	"bytes"
	"io"
	"net/http"
	"sync"
	"time"
)

const (
	// keysEvery is how often the issuer's keys are fetched at most. A token whose
	// key is not known has them fetched again, and anybody can make such a token.
	keysEvery = 10 * time.Second
	// keysAgain is how soon after a fetch that failed.
	keysAgain = time.Second
	// maxKeys bounds the issuer's answer, in bytes.
	maxKeys = 1 << 20
)

// keysTransport fetches the issuer's keys, and gives the answer before for as
// long as it is new enough.
type keysTransport struct {
	// client follows where the issuer sends it: what is kept is the last answer.
	client       *http.Client
	every, again time.Duration

	mu    sync.Mutex
	last  *http.Response
	body  []byte
	err   error
	until time.Time
}

func (k *keysTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now := time.Now(); now.After(k.until) {
		k.fetch(r)
		k.until = now.Add(k.every)
		if k.err != nil || k.last.StatusCode != http.StatusOK {
			k.until = now.Add(k.again)
		}
	}
	if k.err != nil {
		return nil, k.err
	}
	answer := *k.last
	answer.Body, answer.Request = io.NopCloser(bytes.NewReader(k.body)), r
	return &answer, nil
}

func (k *keysTransport) fetch(r *http.Request) {
	answer, err := k.client.Do(r.Clone(r.Context()))
	if k.err = err; err != nil {
		return
	}
	defer answer.Body.Close()
	k.last = answer
	k.body, k.err = io.ReadAll(io.LimitReader(answer.Body, maxKeys))
}
