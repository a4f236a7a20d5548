package access

import (
	"time"

	"gitbind.dev/backend/internal/login"
	"gitbind.dev/backend/internal/ratelimit"
	"gitbind.dev/backend/internal/refusal"
)

// askPerSecond and askAtOnce bound what one person asks for: each request is one
// or more of the control plane's API server.
const askPerSecond, askAtOnce = 20, 100

// Asking bounds what each person asks for, by issuer and subject.
type Asking struct{ each ratelimit.Keyed }

// May refuses somebody who asks too often.
func (a *Asking) May(who login.Identity) error {
	if _, wait := a.each.Take([2]string{who.Issuer, who.Subject}, time.Second/askPerSecond, askAtOnce, time.Now()); wait > 0 {
		return refusal.New(refusal.TooMany, "you make more than %d requests a second: try again", askPerSecond)
	}
	return nil
}
