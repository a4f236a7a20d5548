package events

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/backend/internal/refusal"
	"gitbind.dev/gitbridge/api/restapi"
)

const (
	// keepAlive is how often a silent stream shows that it lives. It is also
	// how often the subscriber's credential is looked at again.
	keepAlive = 15 * time.Second
	// writeTimeout is how long a subscriber may leave what it is sent.
	writeTimeout = 30 * time.Second
)

// Authenticator tells who makes a request about one cluster, or refuses.
type Authenticator interface {
	Authenticate(r *http.Request, cluster string) (access.Caller, error)
}

// Heads are the branches of a cluster's repository, as they are.
type Heads func(ctx context.Context, cluster string) ([]restapi.RefEvent, error)

// Handler serves GET /v1/events?cluster=ID.
type Handler struct {
	Hub           *Hub
	Heads         Heads
	Authenticator Authenticator
	// Pushed is told of what agents have pushed to a host elsewhere, as they say. It is nil
	// where the repositories are here, which need not be told.
	Pushed func(cluster string, e restapi.RefEvent)
	Log    *slog.Logger
	// KeepAlive is for tests; 0 means 15 seconds.
	KeepAlive time.Duration
}

// Mount adds the handler's routes.
func (h *Handler) Mount(mux *http.ServeMux) {
	mux.Handle("GET /v1/events", h)
	if h.Pushed != nil {
		mux.HandleFunc("POST /v1/events", h.take)
	}
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := h.serve(w, r); err != nil {
		h.refuse(w, r, err)
	}
}

func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if refusal.Is(err, refusal.Unauthenticated) {
		w.Header().Set("WWW-Authenticate", `Basic realm="gitbind", charset="UTF-8"`)
	}
	// The path does not say whose events were asked for.
	refusal.WriteJSON(h.Log.With("cluster", r.URL.Query().Get("cluster")), w, r, err)
}

// serve gives an error only as long as nothing is written.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request) error {
	cluster := r.URL.Query().Get("cluster")
	who, err := h.Authenticator.Authenticate(r, cluster)
	if err != nil {
		return err
	}
	if who.Role == access.Member {
		return refusal.New(refusal.Forbidden, "the events of a cluster are for its agents and its owner")
	}
	// Before the heads are read: a move in between is then told twice, and not
	// at all otherwise.
	sub, ok := h.Hub.subscribe(cluster, who.Role != access.Owner)
	if !ok {
		return refusal.New(refusal.Unavailable, "too many listeners for this cluster: close some, or try again")
	}
	defer h.Hub.unsubscribe(cluster, sub)
	heads, err := h.Heads(r.Context(), cluster)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no")
	s := &stream{w: w, ctl: http.NewResponseController(w), told: map[string]string{}}
	var all []event
	for _, e := range heads {
		all = append(all, event{RefEvent: e})
	}
	if err := s.send(all); err != nil {
		return nil // the subscriber left
	}
	h.follow(r, cluster, sub, s)
	return nil
}

// follow sends moves until either side leaves, or the credential no longer
// counts.
func (h *Handler) follow(r *http.Request, cluster string, sub *subscription, s *stream) {
	interval := h.KeepAlive
	if interval == 0 {
		interval = keepAlive
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		var err error
		select {
		case <-r.Context().Done():
			return
		case <-sub.done:
			return
		case <-sub.wake:
			err = s.send(sub.take())
		case <-tick.C:
			_, refused := h.Authenticator.Authenticate(r, cluster)
			if refused != nil && !refusal.Is(refused, refusal.Unavailable) {
				h.Log.InfoContext(r.Context(), "Listener's credential no longer counts", "cluster", cluster, "error", refused)
				return
			}
			err = s.comment("keep-alive")
		}
		if err != nil {
			return
		}
	}
}

// stream writes server-sent events.
type stream struct {
	w    io.Writer
	ctl  *http.ResponseController
	told map[string]string
}

// send writes an event for each branch whose head the subscriber does not know, or of which
// it does not know a verdict.
func (s *stream) send(events []event) error {
	_ = s.ctl.SetWriteDeadline(time.Now().Add(writeTimeout))
	for _, e := range events {
		if hash, known := s.told[e.Ref]; known && hash == e.Hash && !e.Reviewed {
			continue
		}
		data, err := json.Marshal(e.RefEvent)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(s.w, "event: ref\ndata: %s\n\n", data); err != nil {
			return err
		}
		switch {
		case e.hint:
		case e.Hash == "":
			delete(s.told, e.Ref)
		default:
			s.told[e.Ref] = e.Hash
		}
	}
	return s.ctl.Flush()
}

func (s *stream) comment(text string) error {
	_ = s.ctl.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, err := fmt.Fprintf(s.w, ": %s\n\n", text); err != nil {
		return err
	}
	return s.ctl.Flush()
}
