package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"

	"gitbind.dev/backend/internal/githost"
)

// moveTimeout bounds how long the other side may take for a whole repository.
const moveTimeout = 10 * time.Minute

// errOfAnotherHost keeps what was not moved yet from being overwritten.
var errOfAnotherHost = errors.New("what is here is of another Git host, and is not part of the repository there: it is moved first")

// copyOf is the URL of which a repository is a copy, "" for one of its own.
func (r *repository) copyOf(ctx context.Context) (string, error) {
	// Without a process for those that are no copies, which are asked about at each start.
	config, err := os.ReadFile(filepath.Join(r.dir, "config"))
	if err != nil || !bytes.Contains(config, []byte("[remote ")) {
		return "", err
	}
	out, err := r.git.output(ctx, r.dir, nil, "config", "--get", "remote.origin.url")
	if ended := new(exec.ExitError); errors.As(err, &ended) && ended.ExitCode() == 1 {
		return "", nil
	}
	return strings.TrimSpace(string(out)), err
}

func (r *repository) setCopyOf(ctx context.Context, url string) error {
	_, err := r.git.output(ctx, r.dir, nil, "config", "remote.origin.url", url)
	return err
}

// becomesCopyOf notes the URL of which the branches here will be, unless those that are here
// are of another repository. The objects of both are here.
func (r *repository) becomesCopyOf(ctx context.Context, url string, here, there map[string]string) error {
	of, err := r.copyOf(ctx)
	if err != nil || of == url {
		return err
	}
	if main := here[mainRef]; main != "" {
		continues := there[mainRef] != ""
		if continues {
			continues, err = r.isAncestor(ctx, plumbing.NewHash(main), plumbing.NewHash(there[mainRef]))
		}
		if err != nil || !continues {
			return errors.Join(errOfAnotherHost, err)
		}
	}
	return r.setCopyOf(ctx, url)
}

// ownAgain notes that a repository is a copy no more, and before that which changes it had.
func (r *repository) ownAgain(ctx context.Context) error {
	of, err := r.copyOf(ctx)
	if err != nil || of == "" {
		return err
	}
	heads, err := r.git.output(ctx, r.dir, nil, "for-each-ref", "--format=%(objectname)", changesFolder)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(r.imported(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(heads)
	if err := errors.Join(err, file.Sync(), file.Close(), syncPath(r.dir)); err != nil {
		return err
	}
	_, err = r.git.output(ctx, r.dir, nil, "config", "--remove-section", "remote.origin")
	return err
}

// imported is a file with the heads of changes that were pushed to the hosts of which the
// repository was a copy, a line each.
func (r *repository) imported() string { return filepath.Join(r.dir, "gitbind-imported") }

// isImported tells of a change's commits, the newest first, whether they came with such a head,
// and nobody has pushed that or one above it here.
func (r *repository) isImported(ctx context.Context, commits []string, events map[string][]githost.Event) (bool, error) {
	of, err := r.copyOf(ctx)
	if err != nil {
		return false, err
	}
	heads, err := os.ReadFile(r.imported())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	for _, commit := range commits {
		if slices.ContainsFunc(events[commit], func(e githost.Event) bool { return e.Kind == githost.EventPushed }) {
			return false, nil
		}
		if of != "" || bytes.Contains(heads, []byte(commit)) {
			return true, nil
		}
	}
	return false, nil
}

// Push brings the branches of a repository here to where Upstream has it from now on. It is
// false where there is none here. What is there already is left, and must be of the same
// history: otherwise it is githost.ErrOtherHistory.
func (h *Host) Push(ctx context.Context, cluster string) (bool, error) {
	repo, ok, err := h.repository(cluster)
	if err != nil || !ok {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, moveTimeout)
	defer cancel()
	c := h.copies.get(cluster)
	if err := c.take(ctx); err != nil {
		return true, fmt.Errorf("move repository %s: %w", cluster, err)
	}
	defer c.give()
	if err := h.pushUpstream(ctx, repo); err != nil {
		return true, fmt.Errorf("move repository %s: %w", cluster, err)
	}
	return true, nil
}

func (h *Host) pushUpstream(ctx context.Context, repo *repository) error {
	there, err := h.upstream(ctx, repo.id)
	if err != nil {
		return err
	}
	session, err := h.copies.client.NewReceivePackSession(there.endpoint, there.auth)
	if err != nil {
		return err
	}
	defer session.Close()
	advertised, err := refsThere(ctx, session)
	if err != nil {
		return err
	}
	here, err := repo.heads(ctx, h.cfg.MaxRefs)
	if err != nil {
		return err
	}
	request := packp.NewReferenceUpdateRequestFromCapabilities(advertised.Capabilities)
	if advertised.Capabilities.Supports(capability.Atomic) {
		if err := request.Capabilities.Set(capability.Atomic); err != nil {
			return err
		}
	}
	for ref, hash := range here {
		if namedAsPull(ref) {
			continue // a copy of a pull request of the host before
		}
		command := &packp.Command{Name: plumbing.ReferenceName(ref), New: plumbing.NewHash(hash), Old: advertised.References[ref]}
		switch lacks, err := h.lacks(ctx, repo, there, command); {
		case err != nil:
			return err
		case lacks:
			request.Commands = append(request.Commands, command)
		}
	}
	if len(request.Commands) > 0 {
		if err := h.send(ctx, repo, there, request); err != nil {
			return err
		}
	}
	return repo.setCopyOf(ctx, there.url)
}

// lacks tells whether a branch is to be pushed. What is there stays, but a main that is older
// than here.
func (h *Host) lacks(ctx context.Context, repo *repository, there remoteRepository, c *packp.Command) (bool, error) {
	switch {
	case c.Old.IsZero():
		return true, nil
	case c.Old == c.New || string(c.Name) != mainRef:
		return false, nil
	}
	if err := h.fetchMain(ctx, repo, there, c.New); err != nil {
		return false, err
	}
	if newer, err := repo.isAncestor(ctx, c.New, c.Old); err != nil || newer {
		return false, err
	}
	older, err := repo.isAncestor(ctx, c.Old, c.New)
	if err == nil && !older {
		err = githost.ErrOtherHistory
	}
	return older, err
}

// fetchMain stores the objects of the other side's main, and sets no branch.
func (h *Host) fetchMain(ctx context.Context, repo *repository, there remoteRepository, here plumbing.Hash) error {
	session, err := h.copies.client.NewUploadPackSession(there.endpoint, there.auth)
	if err != nil {
		return err
	}
	defer session.Close()
	advertised, err := refsThere(ctx, session)
	if err != nil {
		return err
	}
	main := advertised.References[mainRef].String()
	return h.copyObjects(ctx, repo, session, advertised, map[string]string{mainRef: main}, map[string]string{mainRef: here.String()})
}

// send pushes what a request names, but what the other side has. The pack is not held in
// memory, as go-git's own client would, and its size is known before it is sent: not all that
// is in front of Git hosts takes a body without one.
func (h *Host) send(ctx context.Context, repo *repository, there remoteRepository, request *packp.ReferenceUpdateRequest) error {
	slices.SortFunc(request.Commands, func(a, b *packp.Command) int { return strings.Compare(string(a.Name), string(b.Name)) })
	var revisions strings.Builder
	for _, c := range request.Commands {
		fmt.Fprintln(&revisions, c.New)
		if !c.Old.IsZero() {
			fmt.Fprintf(&revisions, "^%s\n", c.Old)
		}
	}
	body, err := os.CreateTemp(h.git.dir, newPrefix+repo.id+"-")
	if err != nil {
		return err
	}
	defer func() { _, _ = body.Close(), os.Remove(body.Name()) }()
	if err := request.Encode(body); err != nil {
		return err
	}
	cmd := repo.git.command(ctx, repo.dir, "pack-objects", "--revs", "--stdout", "--delta-base-offset", "--quiet")
	cmd.Stdin, cmd.Stdout = strings.NewReader(revisions.String()), body
	if err := repo.git.run(cmd); err != nil {
		return fmt.Errorf("git pack-objects: %w", err)
	}
	size, err := body.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(there.url, "/")+"/git-receive-pack", io.NewSectionReader(body, 0, size))
	if err != nil {
		return err
	}
	post.ContentLength = size
	post.Header.Set("Content-Type", "application/x-git-receive-pack-request")
	post.SetBasicAuth(there.auth.Username, there.auth.Password)
	return h.report(post)
}

// report sends a push, and gives what the other side says of it.
func (h *Host) report(post *http.Request) error {
	answer, err := h.copies.http.Do(post)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the host answers the push with %s", answer.Status)
	}
	report := packp.NewReportStatus()
	if err := report.Decode(io.LimitReader(answer.Body, 1<<20)); err != nil {
		return fmt.Errorf("read what the host says of the push: %w", err)
	}
	if words := refusals(report); report.UnpackStatus == "ok" && len(words) > 0 {
		return &githost.MoveRefusedError{Words: strings.Join(words, ", ")}
	}
	return report.Error()
}

// maxRefusals is how many different ones are said.
const maxRefusals = 3

// refusals are what a host says of the branches that it does not take, each once.
func refusals(report *packp.ReportStatus) []string {
	var words []string
	said := map[string]bool{}
	for _, s := range report.CommandStatuses {
		if s.Error() != nil && !said[s.Status] && len(said) < maxRefusals {
			said[s.Status] = true
			words = append(words, fmt.Sprintf("%q: %q", abbreviate(string(s.ReferenceName)), abbreviate(s.Status)))
		}
	}
	return words
}
