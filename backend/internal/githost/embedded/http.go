package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
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
		return h.advertise(w, r, repo, h.holder(r.Context(), caller))
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
	if h.cfg.Log.Enabled(r.Context(), slog.LevelDebug) {
		began := time.Now()
		defer func() {
			h.cfg.Log.Debug("Request", "cluster", id, "by", accessName(caller), "service", what, "began", began.Format(time.RFC3339Nano), "took", time.Since(began).String())
		}()
	}
	if svc == uploadPack {
		return h.upload(w, r, repo, h.holder(r.Context(), caller))
	}
	return h.receive(w, r, repo, caller)
}

// advertise answers the first request of a fetch or a push: which refs are
// there, and what this side can do.
func (h *Host) advertise(w http.ResponseWriter, r *http.Request, repo *repository, who holder) error {
	svc := service(r.URL.Query().Get("service"))
	if r.Method != http.MethodGet || svc != uploadPack && svc != receivePack {
		return refusal.New(refusal.Invalid, "only Git's smart protocol is served: use a git of this century")
	}
	done, err := h.fetching.enter(r.Context(), who)
	if err != nil {
		return err
	}
	defer done()
	// Git shows its user the words of a refusal here, and not those of the next request.
	if _, err := h.rates.begin(r.Context(), who, gitWork); err != nil {
		return err
	}
	program := string(svc[len("git-"):])
	cmd := repo.git.command(r.Context(), repo.dir, program, "--stateless-rpc", "--advertise-refs", ".")
	v2 := svc == uploadPack && setProtocol(cmd, r)
	leave, err := h.uploads.enter(r.Context(), who)
	if err != nil {
		return err
	}
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	err = repo.git.run(cmd)
	leave() // a slow client keeps nobody else's place
	if err != nil {
		return fmt.Errorf("git %s: %w: %s", program, err, abbreviate(strings.TrimSpace(stderr.String())))
	}
	w.Header().Set("Content-Type", "application/x-"+string(svc)+"-advertisement")
	var head []byte
	if !v2 {
		head = append(appendPkt(nil, "# service="+string(svc)+"\n"), flushPkt...)
	}
	// A client that went away is no trouble of ours.
	_, _ = h.progressWriter(w).Write(append(head, out.Bytes()...))
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
	switch {
	case status == http.StatusUnauthorized:
		// Makes git ask its credential helper.
		w.Header().Set("WWW-Authenticate", `Basic realm="gitbind", charset="UTF-8"`)
	case refusal.Passes(status):
		w.Header().Set("Retry-After", "1")
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, "gitbind: "+words+"\n")
}

// holder is for whom a caller takes places.
func (h *Host) holder(ctx context.Context, c access.Caller) holder {
	return holder{owner: h.owner(ctx, c.Cluster), cluster: c.Cluster, role: c.Role, name: c.Name}
}

// owner is whose cluster this is, so that what one owner's clusters do counts
// together. One that is not known stands for itself.
func (h *Host) owner(ctx context.Context, cluster string) string {
	if h.cfg.OwnerOf != nil {
		if owner := h.cfg.OwnerOf(ctx, cluster); owner != "" {
			return owner
		}
	}
	return cluster
}

// accessName is the caller for the log.
func accessName(c access.Caller) string { return c.Role.String() + " " + c.Name }
