package events

import (
	"encoding/json"
	"net/http"
	"regexp"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/backend/internal/refusal"
	"gitbind.dev/gitbridge/api/restapi"
)

// maxPushed bounds what an agent tells at once, in bytes.
const maxPushed = 128 << 10

// isHead is what a branch can be at, or nothing.
var isHead = regexp.MustCompile(`^([0-9a-f]{40})?$`)

// isBranch is what agents push to: the longest has three names and an escape. Git allows more.
var isBranch = regexp.MustCompile(`^refs/heads/[0-9A-Za-z._/%-]{1,1000}$`)

// take serves POST /v1/events?cluster=ID.
func (h *Handler) take(w http.ResponseWriter, r *http.Request) {
	cluster := r.URL.Query().Get("cluster")
	pushed, err := h.pushed(w, r, cluster)
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	for _, e := range pushed {
		h.Pushed(cluster, restapi.RefEvent{Ref: e.Ref, Hash: e.Hash})
	}
	w.WriteHeader(http.StatusNoContent)
}

func (h *Handler) pushed(w http.ResponseWriter, r *http.Request, cluster string) ([]restapi.RefEvent, error) {
	who, err := h.Authenticator.Authenticate(r, cluster)
	if err != nil {
		return nil, err
	}
	if who.Role != access.Konnector && who.Role != access.Bridge {
		return nil, refusal.New(refusal.Forbidden, "only the agents of a cluster tell what they have pushed")
	}
	var in restapi.Pushed
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxPushed)).Decode(&in); err != nil {
		return nil, refusal.Because(err, refusal.Invalid, "what was pushed cannot be read, or has more than %d bytes", maxPushed)
	}
	if len(in.Refs) > restapi.MaxPushedRefs {
		return nil, refusal.New(refusal.Invalid, "%d branches at once, at most %d", len(in.Refs), restapi.MaxPushedRefs)
	}
	for _, e := range in.Refs {
		if !isBranch.MatchString(e.Ref) || !isHead.MatchString(e.Hash) {
			return nil, refusal.New(refusal.Invalid, "%.100q at %.100q: a branch such as refs/heads/main at a commit is wanted", e.Ref, e.Hash)
		}
	}
	return in.Refs, nil
}
