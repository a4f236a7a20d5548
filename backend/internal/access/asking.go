package access

import (
	"context"
	"sync"
	"time"

	"gitbind.dev/backend/internal/login"
	"gitbind.dev/backend/internal/ratelimit"
	"gitbind.dev/backend/internal/refusal"
)

// askPerSecond and askAtOnce bound what one person asks for: each request is one
// or more of the control plane's API server.
const askPerSecond, askAtOnce = 20, 100

// askUnderWay bounds how much memory the answers of one person take who does not
// read them: a page with diffs has some megabytes.
const askUnderWay = 16

// Asking bounds what each person asks for, by issuer and subject.
type Asking struct {
	each ratelimit.Keyed

	mu       sync.Mutex
	underWay map[[2]string]int
}

// May refuses somebody who asks too often.
func (a *Asking) May(who login.Identity) error {
	if _, wait := a.each.Take([2]string{who.Issuer, who.Subject}, time.Second/askPerSecond, askAtOnce, time.Now()); wait > 0 {
		return refusal.New(refusal.TooMany, "you make more than %d requests a second: try again", askPerSecond)
	}
	return nil
}

// Begin is May for a request that counts as under way until ctx ends, and refuses also
// somebody who has too many of these. Ctx must last until the answer is sent.
func (a *Asking) Begin(ctx context.Context, who login.Identity) error {
	if err := a.May(who); err != nil {
		return err
	}
	person := [2]string{who.Issuer, who.Subject}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.underWay[person] >= askUnderWay {
		return refusal.New(refusal.TooMany, "%d requests of yours are under way: try again", askUnderWay)
	}
	if a.underWay == nil {
		a.underWay = map[[2]string]int{}
	}
	a.underWay[person]++
	context.AfterFunc(ctx, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.underWay[person]--; a.underWay[person] == 0 {
			delete(a.underWay, person)
		}
	})
	return nil
}
