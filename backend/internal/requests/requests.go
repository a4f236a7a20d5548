// Package requests serves JSON requests of people, and of clusters' konnectors: it finds
// out who asks before anything else, bounds how often one person asks and for how long, and
// reads people's bodies strictly. What the requests do is not its business.
package requests

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/backend/internal/login"
	"gitbind.dev/backend/internal/refusal"
)

// Timeout bounds a request that waits for nothing but the API server.
const Timeout = 15 * time.Second

// Verifier proves an identity from a raw ID token, or refuses.
type Verifier interface {
	Verify(ctx context.Context, rawIDToken string) (login.Identity, error)
}

// Server makes handlers of flows.
type Server struct {
	Login Verifier
	Log   *slog.Logger

	asking access.Asking
}

// Flow does what a person asks for. Its answer becomes JSON.
type Flow func(w http.ResponseWriter, r *http.Request, who login.Identity) (answer any, err error)

// Handle makes a handler of a flow: who asks comes first, whatever they ask.
func (s *Server) Handle(timeout time.Duration, flow Flow) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, err := s.signedIn(w, r, timeout, flow)
		if err == nil {
			WriteJSON(w, http.StatusOK, answer)
			return
		}
		if refusal.Is(err, refusal.Unauthenticated) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="gitbind"`)
		}
		refusal.WriteJSON(s.Log, w, r, err)
	})
}

func (s *Server) signedIn(w http.ResponseWriter, r *http.Request, timeout time.Duration, flow Flow) (any, error) {
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	raw, ok := access.BearerToken(r)
	if !ok {
		return nil, refusal.New(refusal.Unauthenticated, "sign in first: send an OIDC ID token as bearer token")
	}
	who, err := s.Login.Verify(ctx, raw)
	if err != nil {
		return nil, err
	}
	if err := s.May(r.Context(), who); err != nil {
		return nil, err
	}
	answer, err := flow(w, r.WithContext(ctx), who)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) && !isRefusal(err) {
		return nil, refusal.Because(err, refusal.Unavailable, "the control plane takes too long: try again")
	}
	return answer, err
}

// May refuses somebody who asks too often, or for too much at once. Ctx is the request's
// own, which ends once it is answered.
func (s *Server) May(ctx context.Context, who login.Identity) error { return s.asking.Begin(ctx, who) }

func isRefusal(err error) bool {
	var r *refusal.Refusal
	return errors.As(err, &r)
}

// maxBody bounds a request: a few names, and at most a message.
const maxBody = 64 << 10

// bodyTimeout is how long a client may take to send it.
const bodyTimeout = 10 * time.Second

// Decode reads one JSON object, strictly: a misspelt field is an error, not a
// default.
func Decode(w http.ResponseWriter, r *http.Request, into any) error {
	// Clients may be slow, but not for ever; afterwards there is no deadline
	// again, as the server takes one that passes for a client that left.
	ctl := http.NewResponseController(w)
	_ = ctl.SetReadDeadline(time.Now().Add(bodyTimeout))
	defer func() { _ = ctl.SetReadDeadline(time.Time{}) }()
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			return refusal.New(refusal.TooLarge, "the request is larger than %d KiB", maxBody>>10)
		}
		return refusal.Because(err, refusal.Invalid, "the request is no JSON of the expected form: %v", err)
	}
	if err := d.Decode(&struct{}{}); !errors.Is(err, io.EOF) {
		return refusal.New(refusal.Invalid, "the request has more than one JSON object")
	}
	return nil
}

// WriteJSON answers a request.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	// The client is gone if this fails; there is nobody left to tell.
	_ = json.NewEncoder(w).Encode(v)
}
