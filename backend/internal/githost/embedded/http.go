package embedded

import (
	"context"
	"errors"
	"io"
	"net/http"
	"regexp"
	"time"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/backend/internal/refusal"
)

// gitPath is what a request's path must be, before any decoding: an encoded
// slash, a dot segment or another case is no repository.
var gitPath = regexp.MustCompile(`^/git/([a-z][a-z0-9]{0,59})\.git/(info/refs|git-upload-pack|git-receive-pack)$`)

// service is one of the two programs of Git's smart protocol.
type service string

const (
	uploadPack  service = "git-upload-pack"
	receivePack service = "git-receive-pack"
)

// ServeHTTP serves Git's smart protocol.
func (h *Host) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := h.serve(w, r); err != nil {
		h.refuse(w, r, err)
	}
}

func (h *Host) serve(w http.ResponseWriter, r *http.Request) error {
	m := gitPath.FindStringSubmatch(r.URL.EscapedPath())
	if m == nil {
		return refusal.New(refusal.NotFound, "repository not found")
	}
	id, what := m[1], m[2]
	// Before anything about the repository is looked up: nobody learns from
	// the answer whether it exists.
	caller, err := h.cfg.Authenticator.Authenticate(r, id)
	if err != nil {
		return err
	}
	repo, ok, err := h.repository(id)
	if err != nil {
		return err
	}
	if !ok {
		return refusal.New(refusal.NotFound, "repository not found")
	}
	w.Header().Set("Cache-Control", "no-cache, max-age=0, must-revalidate")
	if what == "info/refs" {
		return h.advertise(w, r, repo)
	}
	svc := service(what)
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return refusal.New(refusal.Invalid, "%s is asked with POST", svc)
	}
	if got, want := r.Header.Get("Content-Type"), "application/x-"+what+"-request"; got != want {
		return refusal.New(refusal.Invalid, "content type %q: want %q", abbreviate(got), want)
	}
	w.Header().Set("Content-Type", "application/x-"+what+"-result")
	if svc == uploadPack {
		return h.upload(w, r, repo)
	}
	return h.receive(w, r, repo, caller)
}

// advertise answers the first request of a fetch or a push: which refs are
// there, and what this side can do.
func (h *Host) advertise(w http.ResponseWriter, r *http.Request, repo *repository) error {
	svc := service(r.URL.Query().Get("service"))
	if r.Method != http.MethodGet || svc != uploadPack && svc != receivePack {
		return refusal.New(refusal.Invalid, "only Git's smart protocol is served: use a git of this century")
	}
	program := string(svc[len("git-"):])
	cmd := repo.git.command(r.Context(), repo.dir, program, "--stateless-rpc", "--advertise-refs", ".")
	v2 := svc == uploadPack && setProtocol(cmd, r)
	leave, err := enter(r.Context(), h.uploads)
	if err != nil {
		return err
	}
	out, err := cmd.Output()
	leave() // a slow client keeps nobody else's place
	if err != nil {
		return gitError(program, err)
	}
	w.Header().Set("Content-Type", "application/x-"+string(svc)+"-advertisement")
	var head []byte
	if !v2 {
		head = append(appendPkt(nil, "# service="+string(svc)+"\n"), flushPkt...)
	}
	pw := &progressWriter{w: w, ctl: http.NewResponseController(w)}
	// A client that went away is no trouble of ours.
	_, _ = pw.Write(append(head, out...))
	return nil
}

// refuse answers with words that stock git shows.
func (h *Host) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		return // the client left
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = refusal.Because(err, refusal.Unavailable, "the Git host takes too long: try again")
	}
	status, words := refusal.Answer(err)
	refusal.Log(h.cfg.Log, r, status, err)
	switch status {
	case http.StatusUnauthorized:
		// Makes git ask its credential helper.
		w.Header().Set("WWW-Authenticate", `Basic realm="gitbind", charset="UTF-8"`)
	case http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1")
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, "gitbind: "+words+"\n")
}

// enter waits for a place among the requests in work.
func enter(ctx context.Context, places chan struct{}) (leave func(), err error) {
	timer := time.NewTimer(maxWait)
	defer timer.Stop()
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	case <-timer.C:
		return nil, refusal.New(refusal.Unavailable, "the Git host is busy: try again")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// accessName is the caller for the log.
func accessName(c access.Caller) string { return c.Role.String() + " " + c.Name }
