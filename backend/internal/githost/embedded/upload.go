package embedded

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"strings"

	"gitbind.dev/backend/internal/pace"
	"gitbind.dev/backend/internal/refusal"
)

// maxUploadRequest bounds what a client may say when it fetches: wants, haves
// and filters.
const maxUploadRequest = 8 << 20

func fetchTooLarge(limit int64) error {
	return refusal.New(refusal.TooLarge, "the fetch names more commits than fit into %d MiB: clone the repository again", limit>>20)
}

// protocol is the header in which git says which version it speaks.
var protocol = regexp.MustCompile(`^version=[012](:[a-z0-9=-]+)*$`)

// setProtocol passes the client's protocol version on, and tells whether it is
// version 2.
func setProtocol(cmd *exec.Cmd, r *http.Request) bool {
	v := r.Header.Get("Git-Protocol")
	if len(v) > 100 || !protocol.MatchString(v) {
		return false
	}
	cmd.Env = append(cmd.Env, "GIT_PROTOCOL="+v)
	return strings.HasPrefix(v, "version=2")
}

// upload serves a fetch. The request is read whole before git is started, so
// that a slow client costs memory and no process; the answer is streamed.
func (h *Host) upload(w http.ResponseWriter, r *http.Request, repo *repository, who holder) error {
	ctx, cancel := context.WithTimeout(r.Context(), h.clientLimits.Whole)
	defer cancel()
	done, err := h.fetching.enter(ctx, who)
	if err != nil {
		return err
	}
	defer done()
	body, err := h.newSpool(w, r, maxUploadRequest, fetchTooLarge)
	if err != nil {
		return err
	}
	defer body.close()
	var answer [][]byte
	direct := false
	if r.Header.Get("Git-Protocol") == "" {
		answer, direct = h.recent.answer(repo, body.inMemory(0))
	}
	h.served("upload", direct)
	if direct {
		// Small parts go out together.
		out := bufio.NewWriterSize(h.progressWriter(w), 32<<10)
		for _, part := range answer {
			_, _ = out.Write(part)
		}
		_ = out.Flush()
		return nil
	}
	worked, err := h.rates.begin(ctx, who, gitWork)
	if err != nil {
		return err
	}
	leave, err := h.uploads.enter(ctx, who)
	if err != nil {
		return err
	}
	defer leave()

	cmd := repo.git.command(ctx, repo.dir, "upload-pack", "--stateless-rpc", ".")
	setProtocol(cmd, r)
	out := h.progressWriter(w)
	var stderr strings.Builder
	cmd.Stdin, cmd.Stderr = body.from(0), &stderr
	// Not by cmd.Stdout: when git has ended, Wait gives what it has written no more than
	// waitDelay, and a client may take longer.
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err = repo.git.start(cmd); err == nil {
		if _, err = io.Copy(out, pipe); err != nil {
			cancel()
		}
		err = cmp.Or(err, cmd.Wait())
	}
	work := gitWork + max(out.moved, gitWorked(cmd.ProcessState))
	if ctx.Err() != nil {
		// What git has done is not known, as its own processes were not waited for: it may
		// have read all that there is.
		work = max(work, repo.bytes())
	}
	worked(work)
	switch {
	case err == nil || r.Context().Err() != nil:
		return nil
	case !out.written:
		return fmt.Errorf("git upload-pack: %w: %s", err, abbreviate(stderr.String()))
	}
	h.cfg.Log.InfoContext(r.Context(), "Fetch failed", "cluster", repo.id, "error", err, "git", abbreviate(strings.TrimSpace(stderr.String())))
	if ended := (*exec.ExitError)(nil); errors.As(err, &ended) && ended.Exited() {
		return nil // git has told the client in its own protocol what is wrong
	}
	// Half an answer must not look like a whole one.
	panic(http.ErrAbortHandler)
}

// progressWriter sends on what git wrote without waiting for more.
type progressWriter struct {
	w       *pace.Writer
	moved   int64
	written bool
}

func (h *Host) progressWriter(w http.ResponseWriter) *progressWriter {
	return &progressWriter{w: h.clientLimits.Writer(w)}
}

func (p *progressWriter) Write(b []byte) (int, error) {
	p.written = true
	n, err := p.w.Write(b)
	if err == nil {
		err = p.w.FlushError()
	}
	p.moved += int64(n)
	return n, err
}
