package onboarding

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/backend/internal/login"
	"gitbind.dev/backend/internal/refusal"
	"gitbind.dev/gitbridge/api/restapi"
)

// Verifier proves an identity from a raw ID token, or refuses.
type Verifier interface {
	Verify(ctx context.Context, rawIDToken string) (login.Identity, error)
}

// Service serves the onboarding API.
type Service struct {
	// Client reads from a cache and writes to the API server.
	Client client.Client
	// Live reads from the API server.
	Live  client.Reader
	Login Verifier
	// People completes names, for owners who share.
	People People
	Host   githost.Host
	Info   restapi.Info
	// Keys are the konnectors' credentials.
	Keys Keyring
	// Agents lets konnectors in.
	Agents Agents
	// MaxClusters is how many clusters one person may have; 0 means any number.
	MaxClusters int
	// KonnectorSeen is when a cluster's konnector was here last; zero when that
	// is not known.
	KonnectorSeen func(cluster string) time.Time
	Log           *slog.Logger
	// Now is for tests; nil means time.Now.
	Now func() time.Time

	connecting sync.Mutex
	permitting sync.Mutex
	asking     access.Asking
	renewals   renewals
}

const (
	// requestTimeout bounds a request; connecting waits for the controllers.
	requestTimeout = 15 * time.Second
	connectTimeout = 45 * time.Second
)

// fieldOwner is the backend's, in all that it applies.
const fieldOwner = client.FieldOwner("gitbind-backend")

// Mount adds the service's routes.
func (s *Service) Mount(mux *http.ServeMux) {
	mux.HandleFunc("GET /v1/info", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, s.Info) })
	mux.Handle("POST /v1/clusters", s.handle(connectTimeout, func(w http.ResponseWriter, r *http.Request, who login.Identity) (any, error) {
		in, err := parseConnect(w, r)
		if err != nil {
			return nil, err
		}
		return s.connect(r.Context(), who, in)
	}))
	mux.Handle("GET /v1/clusters", s.handle(requestTimeout, func(_ http.ResponseWriter, r *http.Request, who login.Identity) (any, error) {
		return s.clusters(r.Context(), who)
	}))
	mux.Handle("POST /v1/clusters/{id}/bindings", s.handle(requestTimeout, func(w http.ResponseWriter, r *http.Request, who login.Identity) (any, error) {
		in, err := parseBind(w, r)
		if err != nil {
			return nil, err
		}
		return s.bind(r.Context(), who, in)
	}))
	mux.Handle("GET /v1/catalog", s.handle(requestTimeout, func(_ http.ResponseWriter, r *http.Request, who login.Identity) (any, error) {
		return s.catalog(r.Context(), who)
	}))
	s.mountCredentials(mux)
	s.mountEncryption(mux)
	s.mountShares(mux)
	s.mountTransfer(mux)
	mux.HandleFunc("/v1/", func(w http.ResponseWriter, r *http.Request) {
		refusal.WriteJSON(s.Log, w, r, refusal.New(refusal.NotFound, "there is nothing at %s %s: client and backend may be of different versions", r.Method, r.URL.Path))
	})
}

// handle makes a handler of a flow: who asks comes first, whatever they ask.
func (s *Service) handle(timeout time.Duration, flow func(http.ResponseWriter, *http.Request, login.Identity) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), timeout)
		defer cancel()
		r = r.WithContext(ctx)
		answer, err := s.signedIn(w, r, flow)
		if err == nil {
			writeJSON(w, http.StatusOK, answer)
			return
		}
		if refusal.Is(err, refusal.Unauthenticated) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="gitbind"`)
		}
		refusal.WriteJSON(s.Log, w, r, err)
	})
}

func (s *Service) signedIn(w http.ResponseWriter, r *http.Request, flow func(http.ResponseWriter, *http.Request, login.Identity) (any, error)) (any, error) {
	raw, ok := access.BearerToken(r)
	if !ok {
		return nil, refusal.New(refusal.Unauthenticated, "sign in first: send an OIDC ID token as bearer token")
	}
	who, err := s.Login.Verify(r.Context(), raw)
	if err != nil {
		return nil, err
	}
	if err := s.asking.May(who); err != nil {
		return nil, err
	}
	answer, err := flow(w, r, who)
	if err != nil && errors.Is(r.Context().Err(), context.DeadlineExceeded) && !isRefusal(err) {
		return nil, refusal.Because(err, refusal.Unavailable, "the control plane takes too long: try again")
	}
	return answer, err
}

func isRefusal(err error) bool {
	var r *refusal.Refusal
	return errors.As(err, &r)
}

// trouble says of an error of the API server whether it may pass. One that
// tells of a mistake of ours stays an internal error.
func trouble(err error) error {
	if err == nil || apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		return err
	}
	return refusal.Because(err, refusal.Unavailable, "the control plane cannot do this just now: try again")
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	// The client is gone if this fails; there is nobody left to tell.
	_ = json.NewEncoder(w).Encode(v)
}

func (s *Service) now() time.Time {
	if s.Now != nil {
		return s.Now()
	}
	return time.Now()
}
