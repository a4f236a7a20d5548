package client

import (
	"cmp"
	"net/http"
	"strconv"
	"time"

	"gitbind.dev/backend/internal/githost"
)

// Observer is told of what a Git host's API is asked; nil is told nothing.
type Observer interface {
	// Asked is told what came of a request: Succeeded, Unchanged, Refused, Failed or Withheld.
	Asked(account string, result Result)
	// Remaining is told how many requests an account has left until its rate limit begins again,
	// as often as the host says that; until is zero where it does not say when.
	Remaining(account string, requests float64, until time.Time)
	// Expires is told when the host ends an account's credential; zero if it does not.
	Expires(account string, at time.Time)
}

// Result is what came of a request.
type Result string

const (
	// Succeeded is an answer with what was asked for.
	Succeeded Result = "ok"
	// Unchanged is an answer that it is as it was when it was asked for last, which costs
	// nothing of GitHub's limits.
	Unchanged Result = "unchanged"
	// Refused is the client's error, by the host's opinion.
	Refused Result = "refused"
	// Failed is the host's error, or no answer.
	Failed Result = "failed"
	// Withheld is a request that was not sent, as the rate limit is used up.
	Withheld Result = "withheld"
)

// observed counts the requests that an account sends, but for those whose answer was known, which
// GitHub does not count either, and tells of all.
type observed struct {
	base     http.RoundTripper
	account  string
	observer Observer
}

func (o *observed) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := o.base.RoundTrip(r)
	if err != nil || answer.StatusCode != http.StatusNotModified {
		githost.CountRequest(r.Context())
	}
	if o.observer == nil {
		return answer, err
	}
	switch {
	case err != nil || answer.StatusCode >= http.StatusInternalServerError:
		o.observer.Asked(o.account, Failed)
	case answer.StatusCode >= http.StatusBadRequest:
		o.observer.Asked(o.account, Refused)
	case answer.StatusCode == http.StatusNotModified:
		o.observer.Asked(o.account, Unchanged)
	default:
		o.observer.Asked(o.account, Succeeded)
	}
	if err != nil {
		return nil, err
	}
	if left, err := strconv.ParseUint(limitHeader(answer, "Remaining"), 10, 63); err == nil {
		var until time.Time
		if unix, err := strconv.ParseInt(limitHeader(answer, "Reset"), 10, 64); err == nil {
			until = time.Unix(unix, 0)
		}
		o.observer.Remaining(o.account, float64(left), until)
	}
	return answer, nil
}

// limitHeader is what an answer says of the rate limit, by GitHub's name or by GitLab's.
func limitHeader(r *http.Response, name string) string {
	return cmp.Or(r.Header.Get("X-RateLimit-"+name), r.Header.Get("RateLimit-"+name))
}
