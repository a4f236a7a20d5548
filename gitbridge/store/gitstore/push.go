package gitstore

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"

	"gitbind.dev/gitbridge/brief"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/internal/branch"
	"gitbind.dev/gitbridge/store/internal/object"
	"gitbind.dev/gitbridge/store/pack"
)

// maxReport is how much of the answer to a push is read.
const maxReport = 1 << 20

// Push is one request: the remote need not be asked where the branch is, since
// it compares with Old itself.
func (r *remote) Push(ctx context.Context, p branch.Push) error {
	body, err := r.encodePush(p)
	if err != nil {
		return err
	}
	r.http.throttle.notePush()
	answer, err := r.http.post(ctx, receivePack, body)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Close() }()
	report, words, err := readReport(io.LimitReader(answer, maxReport))
	if err != nil {
		if words != "" {
			return fmt.Errorf("%w: the remote says: %s", err, words)
		}
		return cmp.Or(r.checkObjectFormat(ctx), err)
	}
	err = r.judge(ctx, p, report, words)
	if errors.Is(err, store.ErrRejected) {
		// Another credential may have the right, as to push to a protected branch.
		r.http.forgetCredential()
	}
	return err
}

// checkObjectFormat asks what takes pushes for its object format: an empty
// repository tells nobody else, and a push to one of another format ends without a
// report. The error is ErrObjectFormat, or nil where that is not what is wrong.
func (r *remote) checkObjectFormat(ctx context.Context) error {
	body, err := r.http.refs(ctx, receivePack)
	if err != nil {
		return nil
	}
	defer func() { _ = body.Close() }()
	for lines := pktline.NewScanner(body); lines.Scan(); {
		if _, capabilities, ok := strings.Cut(string(lines.Bytes()), "\x00"); ok {
			return wantSHA1(capabilities)
		}
	}
	return nil
}

func (r *remote) encodePush(p branch.Push) ([]byte, error) {
	if err := r.ref.Validate(); err != nil {
		return nil, fmt.Errorf("branch %q: %w", r.ref.Short(), err)
	}
	req := packp.NewReferenceUpdateRequest()
	for _, c := range []capability.Capability{capability.ReportStatus, capability.Sideband64k} {
		_ = req.Capabilities.Set(c)
	}
	req.Commands = []*packp.Command{{
		Name: r.ref,
		Old:  plumbing.NewHash(string(p.Old)),
		New:  plumbing.NewHash(string(p.New().Head())),
	}}
	var b bytes.Buffer
	if err := req.Encode(&b); err != nil {
		return nil, err
	}
	if p.Removes() {
		return b.Bytes(), nil
	}
	if err := writePack(&b, p.Objects); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

var packTypes = map[object.Kind]plumbing.ObjectType{
	object.Commit: plumbing.CommitObject,
	object.Tree:   plumbing.TreeObject,
	object.Blob:   plumbing.BlobObject,
	object.Tag:    plumbing.TagObject,
}

// writePack appends a pack of objects.
func writePack(b *bytes.Buffer, objects []object.Object) error {
	packed := make([]pack.Object, len(objects))
	for i, o := range objects {
		packed[i] = pack.Object{Type: packTypes[o.Kind], Size: int64(len(o.Data)), Data: o.Data}
	}
	return pack.Write(b, packed)
}

// readReport reads the answer to a push, and what hooks said. Some servers
// answer without the sideband that was asked for.
func readReport(r io.Reader) (report *packp.ReportStatus, words string, err error) {
	buffered := bufio.NewReader(r)
	report = packp.NewReportStatus()
	if start, _ := buffered.Peek(len("0000unpack")); bytes.HasSuffix(start, []byte("unpack")) {
		return report, "", report.Decode(buffered)
	}
	var said bytes.Buffer
	demuxer := sideband.NewDemuxer(sideband.Sideband64k, buffered)
	demuxer.Progress = &said
	err = report.Decode(demuxer)
	// Hooks may speak after the report, too.
	_, _ = io.Copy(io.Discard, demuxer)
	var refused *pktline.ErrorLine
	if errors.As(err, &refused) {
		said.WriteString(refused.Text)
	}
	const enough = 2000
	return report, brief.CutBytes(oneLine(said.String()), enough), err
}

// notForward is the reason for which remotes refuse to lose commits.
const notForward = "non-fast-forward"

// The reasons that Git gives, in all its versions, when somebody else was
// first or is just now at work.
var conflictReasons = []string{
	"failed to update ref",
	"cannot lock ref",
	"fetch first",
	notForward,
	"stale info",
	"incorrect old value provided",
	"reference already exists",
	"reference does not exist",
	"missing necessary objects",
}

// judge finds out what the remote's report means.
func (r *remote) judge(ctx context.Context, p branch.Push, report *packp.ReportStatus, words string) error {
	if report.UnpackStatus != "ok" {
		return &store.NotTakenError{Reason: oneLine(report.UnpackStatus), Words: words}
	}
	for _, c := range report.CommandStatuses {
		if c.ReferenceName != r.ref {
			continue
		}
		if c.Status == "ok" {
			r.kept.Force(p.New().Root().Memory())
			return nil
		}
		for _, reason := range conflictReasons {
			if p.Cuts() && reason == notForward {
				// It is this one's own doing, not somebody else's.
				continue
			}
			if strings.Contains(c.Status, reason) {
				return fmt.Errorf("%w: %s", store.ErrConflict, join(c.Status, words))
			}
		}
		// Reasons are for people. Where the branch is tells for sure whether
		// somebody was first.
		if head, err := r.Head(ctx); err == nil && head != p.Old {
			return fmt.Errorf("%w: %s", store.ErrConflict, join(c.Status, words))
		}
		return fmt.Errorf("%w: %s", store.ErrRejected, join(c.Status, words))
	}
	return errors.New("the remote says nothing about " + r.ref.String())
}

func join(reason, words string) string {
	if reason = oneLine(reason); words != "" {
		return reason + ": " + words
	}
	return reason
}
