package requests

import (
	"context"
	"log/slog"
	"net/http"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/backend/internal/refusal"
)

// Agents tells which agent makes a request about a cluster, or refuses.
type Agents interface {
	Authenticate(r *http.Request, cluster string) (access.Caller, error)
}

// Konnectors makes handlers of what a cluster's konnector asks with its own credential. The
// cluster is {id} of the path.
type Konnectors struct {
	Agents Agents
	Log    *slog.Logger
}

// KonnectorFlow does what a konnector asks for. It reads the request's body as far as it
// needs it. Its answer becomes JSON.
type KonnectorFlow func(r *http.Request, who access.Caller) (answer any, err error)

// Handle makes a handler of a flow.
func (k *Konnectors) Handle(flow KonnectorFlow) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), Timeout)
		defer cancel()
		r = r.WithContext(ctx)
		answer, err := k.asks(r, flow)
		if err == nil {
			WriteJSON(w, http.StatusOK, answer)
			return
		}
		if refusal.Is(err, refusal.Unauthenticated) {
			w.Header().Set("WWW-Authenticate", `Basic realm="gitbind", charset="UTF-8"`)
		}
		refusal.WriteJSON(k.Log, w, r, err)
	})
}

func (k *Konnectors) asks(r *http.Request, flow KonnectorFlow) (any, error) {
	who, err := k.Agents.Authenticate(r, r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	if who.Role != access.Konnector {
		return nil, refusal.New(refusal.Forbidden, "this is for the cluster's konnector: its owner replaces the credential with kubectl gitbind rotate")
	}
	return flow(r, who)
}
