package client

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"time"
)

const (
	// unsaid is how long to leave a host alone that does not say how long, as GitHub asks for. It is
	// twice as long each time that the host refuses again.
	unsaid = time.Minute
	// maxLimit bounds what a host may ask for: limits are by the hour at most.
	maxLimit = time.Hour + time.Minute
	// maxRefusal is how much of a refusal is looked through for its reason, in bytes.
	maxRefusal = 64 << 10
)

// limit tells whether an answer says that a rate limit is used up, and when that ends; zero if the
// host does not say when.
//
// Each host answers 429, and GitHub 403 as well: with Retry-After, with nothing that remains, or
// in words. https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api
func limit(r *http.Response, now time.Time) (until time.Time, ok bool) {
	after, spent := r.Header.Get("Retry-After"), limitHeader(r, "Remaining") == "0"
	switch {
	case r.StatusCode == http.StatusTooManyRequests:
	case r.StatusCode != http.StatusForbidden:
		return time.Time{}, false
	case after == "" && !spent && !saysLimit(r):
		return time.Time{}, false
	}
	if seconds, err := strconv.ParseUint(after, 10, 31); err == nil {
		until = now.Add(time.Duration(seconds) * time.Second)
	} else if date, err := http.ParseTime(after); err == nil {
		until = date
	} else if unix, err := strconv.ParseInt(limitHeader(r, "Reset"), 10, 64); err == nil && spent {
		until = time.Unix(unix, 0)
	} else {
		return time.Time{}, true
	}
	if least := now.Add(time.Second); until.Before(least) {
		return least, true
	}
	if most := now.Add(maxLimit); until.After(most) {
		return most, true
	}
	return until, true
}

// pause is when a host is to be asked again.
type pause struct {
	until time.Time
	// waited is how long the last limit was waited for of which the host did not say when it ends; 0
	// when it has taken such a request since. It was of a write if writes is set: hosts have limits of
	// their own for these, and answer what is read meanwhile.
	waited time.Duration
	writes bool
}

// refused is when to ask again after a limit was used up, until when the host says; zero if it does not.
func (p *pause) refused(r *http.Request, until, now time.Time) time.Time {
	switch {
	case !until.IsZero():
		p.until = until
	case !now.Before(p.until): // Else it was under way with the one that was refused.
		p.waited, p.writes = min(max(2*p.waited, unsaid), maxLimit), writes(r)
		p.until = now.Add(p.waited)
	}
	return p.until
}

// taken notes that the host did not refuse a request.
func (p *pause) taken(r *http.Request) {
	if writes(r) || !p.writes {
		p.waited = 0
	}
}

func writes(r *http.Request) bool { return r.Method != http.MethodGet }

// saysLimit tells whether a refusal is about a rate limit in its words, and leaves them to be
// read.
func saysLimit(r *http.Response) bool {
	start, _ := io.ReadAll(io.LimitReader(r.Body, maxRefusal))
	r.Body = body{io.MultiReader(bytes.NewReader(start), r.Body), r.Body}
	return bytes.Contains(bytes.ToLower(start), []byte("rate limit"))
}
