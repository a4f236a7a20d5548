package onboarding

import (
	"log/slog"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/backend/internal/copies"
	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/backend/internal/login"
	"gitbind.dev/backend/internal/ratelimit"
	"gitbind.dev/backend/internal/refusal"
	"gitbind.dev/backend/internal/requests"
	"gitbind.dev/gitbridge/api/restapi"
)

// Service serves the onboarding API.
type Service struct {
	// Client reads from a cache and writes to the API server.
	Client client.Client
	// Live reads from the API server.
	Live client.Reader
	// Requests lets people in.
	Requests *requests.Server
	// People completes names, for owners who share.
	People People
	Host   githost.Host
	// Accounts gives konnectors what opens their repositories; nil if that is what the
	// backend gave them.
	Accounts githost.Accounts
	Info     restapi.Info
	// Keys are the konnectors' credentials.
	Keys Keyring
	// Konnectors lets konnectors in.
	Konnectors *requests.Konnectors
	// MaxClusters is how many clusters one person may have; 0 means any number.
	MaxClusters int
	// Shards are those of bridges, of which a new cluster gets one; none for the default.
	Shards []string
	// IsShardFree reports whether no bridge of a shard runs.
	IsShardFree func(shard string) bool
	// KonnectorSeen is when a cluster's konnector was here last; zero when that
	// is not known.
	KonnectorSeen func(cluster string) time.Time
	// Began is since when konnectors are seen: when this process began.
	Began time.Time
	// Copies are told of konnectors' heartbeats.
	Copies *copies.Clusters
	Log    *slog.Logger
	Now    func() time.Time

	connecting sync.Mutex
	permitting sync.Mutex
	// renewals and registrations keep one konnector from having the control plane write all the time.
	renewals, registrations ratelimit.Keyed
	// issues bounds what a Git host of its own is asked for: for konnectors, and for people, whom
	// a konnector must not keep from replacing its credential.
	issues githost.IssueLimit
}

// connectTimeout bounds a connect, which waits for the controllers.
const connectTimeout = 45 * time.Second

// fieldOwner is the backend's, in all that it applies.
const fieldOwner = client.FieldOwner("gitbind-backend")

// Mount adds the service's routes.
func (s *Service) Mount(mux *http.ServeMux) {
	mux.HandleFunc("GET /v1/info", func(w http.ResponseWriter, _ *http.Request) { requests.WriteJSON(w, http.StatusOK, s.Info) })
	mux.Handle("POST /v1/clusters", s.Requests.Handle(connectTimeout, func(w http.ResponseWriter, r *http.Request, who login.Identity) (any, error) {
		in, err := parseConnect(w, r)
		if err != nil {
			return nil, err
		}
		return s.connect(r.Context(), who, in)
	}))
	mux.Handle("GET /v1/clusters", s.Requests.Handle(requests.Timeout, func(_ http.ResponseWriter, r *http.Request, who login.Identity) (any, error) {
		return s.clusters(r.Context(), who)
	}))
	mux.Handle("POST /v1/clusters/{id}/bindings", s.Requests.Handle(requests.Timeout, func(w http.ResponseWriter, r *http.Request, who login.Identity) (any, error) {
		in, err := parseBind(w, r)
		if err != nil {
			return nil, err
		}
		return s.bind(r.Context(), who, in)
	}))
	mux.Handle("GET /v1/catalog", s.Requests.Handle(requests.Timeout, func(_ http.ResponseWriter, r *http.Request, who login.Identity) (any, error) {
		return s.catalog(r.Context(), who)
	}))
	s.mountCredentials(mux)
	s.mountEncryption(mux)
	s.mountHeartbeat(mux)
	s.mountShares(mux)
	s.mountTransfer(mux)
	mux.HandleFunc("/v1/", func(w http.ResponseWriter, r *http.Request) {
		refusal.WriteJSON(s.Log, w, r, refusal.New(refusal.NotFound, "there is nothing at %s %s: client and backend may be of different versions", r.Method, r.URL.Path))
	})
}

// trouble says of an error of the API server whether it may pass. One that
// tells of a mistake of ours stays an internal error.
func trouble(err error) error {
	if err == nil || apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		return err
	}
	return refusal.Because(err, refusal.Unavailable, "the control plane cannot do this just now: try again")
}
