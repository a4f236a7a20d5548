package gitstore

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"

	"gitbind.dev/gitbridge/signing"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/internal/branch"
	"gitbind.dev/gitbridge/store/internal/object"
	"gitbind.dev/gitbridge/store/limits"
	"gitbind.dev/gitbridge/store/memory"
	"gitbind.dev/gitbridge/store/pack"
)

const (
	// defaultIncrement is how many objects are taken for what changed since the
	// last fetch.
	defaultIncrement = 20_000
	// maxObjects is how many objects are taken at all: those of a tree as large as is
	// read, or the commits of a long history.
	maxObjects = 4 * limits.Paths
	// maxObject is how large an object is read, as others may be differences
	// from it.
	maxObject = 32 << 20
	// largeFile is from which size on files count as large, and largeFiles how
	// many bytes of them are kept: beyond, they are named, and cannot be read.
	largeFile  = 64 << 10
	largeFiles = 128 << 20
	// inflation is how much more than a pack what is kept of it may have, and maxKept
	// how many bytes that may be; maxUnpacked is how much more all of its content may
	// have, which costs time.
	inflation   = 2
	maxKept     = 256 << 20
	maxUnpacked = 4
)

// keptFiles leaves out the files whose content is not kept anyway. Otherwise a
// remote looks for differences between the largest files that anybody pushed,
// for minutes, and sends them.
var keptFiles = packp.FilterBlobLimit(store.MaxFile+1, packp.BlobLimitPrefixNone)

// remote is one branch as it is reached over HTTP or SSH.
type remote struct {
	http *transport
	ref  plumbing.ReferenceName
	// kept is the memory of the newest tree.
	kept *memory.Share
	// signatures says that commits are to say who signed them.
	signatures bool
}

var _ branch.Remote = (*remote)(nil)

// Head reads what upload-pack says at the beginning: all refs, one per line,
// with the capabilities behind the first.
func (r *remote) Head(ctx context.Context) (head store.Hash, err error) {
	if err := r.ref.Validate(); err != nil {
		return "", fmt.Errorf("branch %q: %w", r.ref.Short(), err)
	}
	body, err := r.http.refs(ctx, uploadPack)
	if err != nil {
		return "", err
	}
	defer func() { _ = body.Close() }()
	lines := pktline.NewScanner(body)
	first, ended := true, false
	for lines.Scan() {
		line := strings.TrimSuffix(string(lines.Bytes()), "\n")
		// The service's name and a flush come first.
		if line == "" || strings.HasPrefix(line, "# service=") {
			ended = line == "" && !first
			continue
		}
		line, capabilities, _ := strings.Cut(line, "\x00")
		if first {
			r.http.learn(capabilities)
			first = false
			if err := wantSHA1(capabilities); err != nil {
				return "", err
			}
		}
		hash, name, _ := strings.Cut(line, " ")
		if name != string(r.ref) {
			continue
		}
		if _, err := object.ParseID(hash); err != nil {
			return "", fmt.Errorf("read refs: %w", err)
		}
		head = store.Hash(hash)
	}
	switch {
	case lines.Err() != nil:
		return "", fmt.Errorf("read refs: %w", lines.Err())
	case !first && !ended:
		return "", fmt.Errorf("read refs: %w", io.ErrUnexpectedEOF)
	}
	return head, nil
}

// wantSHA1 gives ErrObjectFormat for a remote that says that it has another one.
func wantSHA1(capabilities string) error {
	for c := range strings.FieldsSeq(capabilities) {
		if format, ok := strings.CutPrefix(c, "object-format="); ok && format != "sha1" {
			return fmt.Errorf("%w: it is %s", store.ErrObjectFormat, format)
		}
	}
	return nil
}

// canLimit says whether the remote can leave out large files.
func (r *remote) canLimit(ctx context.Context) (bool, error) {
	r.http.mu.Lock()
	refused := r.http.unlimited
	r.http.mu.Unlock()
	if refused {
		return false, nil
	}
	return r.can(ctx, capability.Filter)
}

func (t *transport) unlimit() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unlimited = true
}

func (t *transport) learn(capabilities string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.capabilities = map[string]bool{}
	for c := range strings.FieldsSeq(capabilities) {
		t.capabilities[c] = true
	}
}

// Load asks for what follows on what is known. What is known is declared
// shallow, since just its tree is at hand: otherwise a remote with bitmaps takes
// all older content for known, too.
//
// When somebody merges what was begun long ago, that would be the whole history
// of it, with all its trees. Then, and at the beginning, the one commit is asked
// for: a depth makes the remote go through all files, where otherwise it goes
// through those that changed.
func (r *remote) Load(ctx context.Context, tip store.Hash, known *store.Snapshot) (*store.Snapshot, []store.Commit, error) {
	return r.loadBy(ctx, tip, []way{{known, 0, r.http.increment}, {known, 1, maxObjects}, {nil, 1, maxObjects}})
}

func (r *remote) At(ctx context.Context, commit store.Hash, known *store.Snapshot) (*store.Snapshot, error) {
	snap, _, err := r.loadBy(ctx, commit, []way{{known, 1, maxObjects}, {nil, 1, maxObjects}})
	return snap, err
}

// way is one of asking for a commit: with what is known, how many commits before it, 0 for all,
// and at most so many objects.
type way struct {
	known   *store.Snapshot
	depth   packp.DepthCommits
	objects int
}

func (r *remote) loadBy(ctx context.Context, tip store.Hash, ways []way) (*store.Snapshot, []store.Commit, error) {
	want, err := object.ParseID(tip)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", branch.ErrGone, err)
	}
	limited, err := r.canLimit(ctx)
	if err != nil {
		return nil, nil, err
	}
	if ways[0].known.Head() == "" {
		ways = ways[len(ways)-1:]
	}
	snap, commits, err := r.load(ctx, want, ways, limited)
	if limited && errors.Is(err, branch.ErrGone) && strings.Contains(err.Error(), "filter") {
		// It is a host that allows some filters only.
		r.http.unlimit()
		snap, commits, err = r.load(ctx, want, ways, false)
	}
	return snap, commits, r.limited(tip, "", err)
}

// load asks for what follows, one way after the other. Limited is without large files.
func (r *remote) load(ctx context.Context, want object.ID, ways []way, limited bool) (_ *store.Snapshot, _ []store.Commit, err error) {
	for i, way := range ways {
		req := newRequest(want)
		_ = req.Capabilities.Set(capability.Shallow)
		req.Depth = way.depth
		if limited {
			_ = req.Capabilities.Set(capability.Filter)
			req.Filter = keptFiles
		}
		if have, err := object.ParseID(way.known.Head()); err == nil {
			req.Haves = []plumbing.Hash{plumbing.Hash(have)}
			req.Shallows = []plumbing.Hash{plumbing.Hash(have)}
		}
		var snap *store.Snapshot
		var commits []store.Commit
		var lost bool
		err = r.fetch(ctx, req, pack.Options{
			Limits: r.packLimits(way.objects),
			Keep:   keepFiles(min(largeFiles, r.http.limit/2)),
		}, func(p fetched) (err error) {
			// What is left out for its size is missing just as what could not be read.
			p.Lost = p.Lost || limited
			if snap, lost, err = p.snapshot(want, way.known); err != nil {
				return err
			}
			commits, err = p.commits()
			return err
		})
		switch {
		case errors.Is(err, pack.ErrLimit):
			// Without the commits before the last one it may be less.
		case err == nil && lost && i < len(ways)-1:
			// It is the difference from an older version that was too large, which
			// does not come where the older commits do not. Or the remote took it for
			// known: what is left out where nothing is known, is too large.
		case err == nil:
			return snap, commits, r.keep(snap)
		case !errors.Is(err, object.ErrMissing):
			return nil, nil, err
		}
		// The remote may think that more is known than what is.
	}
	return nil, nil, err
}

func newRequest(want object.ID) *packp.UploadPackRequest {
	req := packp.NewUploadPackRequest()
	req.Wants = []plumbing.Hash{plumbing.Hash(want)}
	for _, c := range []capability.Capability{capability.OFSDelta, capability.NoProgress} {
		_ = req.Capabilities.Set(c)
	}
	return req
}

// fetched is what came in a pack.
type fetched struct {
	*pack.Pack
	// signatures says that commits are to say who signed them.
	signatures bool
}

// commit reads a commit, and the name of its tree.
func (p fetched) commit(id object.ID, data []byte) (store.Commit, object.ID, error) {
	c, err := object.DecodeCommit(data)
	if err != nil {
		return store.Commit{}, object.ID{}, fmt.Errorf("commit %s: %w", id, err)
	}
	commit := store.NewCommit(id, c)
	if p.signatures {
		commit.SignedBy = signing.SignedBy(object.Signed(data))
	}
	return commit, c.Tree, nil
}

var kinds = map[plumbing.ObjectType]object.Kind{
	plumbing.CommitObject: object.Commit,
	plumbing.TreeObject:   object.Tree,
	plumbing.BlobObject:   object.Blob,
	plumbing.TagObject:    object.Tag,
}

// keepFiles wants the content of everything but of what is too large, by itself or, as
// one of many large files, together with the others: large is how many bytes of these.
func keepFiles(large int64) func(plumbing.ObjectType, int64) bool {
	return func(t plumbing.ObjectType, size int64) bool {
		switch {
		case size > maxObject:
			return false
		case t != plumbing.BlobObject || size <= largeFile:
			return true
		case size > large:
			return false
		}
		large -= size
		return true
	}
}

// keepCommits wants commits alone.
func keepCommits(t plumbing.ObjectType, size int64) bool {
	return t == plumbing.CommitObject && size <= maxObject
}

func (p fetched) object(id object.ID) (object.Received, bool) {
	o, ok := p.Objects[plumbing.Hash(id)]
	return object.Received{Kind: kinds[o.Type], Size: o.Size, Data: o.Data}, ok
}

// snapshot is the tree at a commit. Lost says that files of it could not be
// read, and are there as ones too large to keep.
func (p fetched) snapshot(tip object.ID, known *store.Snapshot) (_ *store.Snapshot, lost bool, err error) {
	o, ok := p.object(tip)
	switch {
	case !ok:
		return nil, false, fmt.Errorf("%w: commit %s", object.ErrMissing, tip)
	case o.Kind != object.Commit || o.Data == nil:
		return nil, false, fmt.Errorf("%s is no commit, but a %s of %d bytes", tip, o.Kind, o.Size)
	}
	commit, tree, err := p.commit(tip, o.Data)
	if err != nil {
		return nil, false, err
	}
	b := object.Builder{
		Received:  p.object,
		Old:       known.Root(),
		MaxFile:   store.MaxFile,
		LostFiles: p.Lost,
	}
	root, err := b.Build(tree)
	if err != nil {
		return nil, false, fmt.Errorf("commit %s: %w", tip, err)
	}
	return store.NewSnapshot(commit, root), b.Lost, nil
}

// commits are those in a pack, in no order.
func (p fetched) commits() ([]store.Commit, error) {
	var commits []store.Commit
	for id, o := range p.Objects {
		if o.Type != plumbing.CommitObject || o.Data == nil {
			continue
		}
		commit, _, err := p.commit(object.ID(id), o.Data)
		if err != nil {
			return nil, err
		}
		commits = append(commits, commit)
		// It is not there twice for longer than need be.
		delete(p.Objects, id)
	}
	return commits, nil
}

// uploadPack asks for a pack. The error is branch.ErrGone if the remote does
// not offer what is wanted.
func (r *remote) uploadPack(ctx context.Context, req *packp.UploadPackRequest, o pack.Options) (fetched, error) {
	var b bytes.Buffer
	if err := errors.Join(req.Validate(), req.UploadRequest.Encode(&b), req.UploadHaves.Encode(&b, false), pktline.NewEncoder(&b).EncodeString("done\n")); err != nil {
		return fetched{}, err
	}
	body, err := r.http.post(ctx, uploadPack, b.Bytes())
	if err != nil {
		return fetched{}, err
	}
	defer func() { _ = body.Close() }()

	res := packp.NewUploadPackResponse(req)
	if err := res.Decode(io.NopCloser(bufio.NewReaderSize(body, 64<<10))); err != nil {
		var words *pktline.ErrorLine
		if errors.As(err, &words) {
			return fetched{}, fmt.Errorf("%w: %s", branch.ErrGone, oneLine(words.Text))
		}
		return fetched{}, fmt.Errorf("read answer: %w", err)
	}
	p, err := pack.Read(res, o)
	return fetched{p, r.signatures}, err
}

// Log asks for the commits alone, if the remote can do that.
func (r *remote) Log(ctx context.Context, since, to store.Hash, depth int) ([]store.Commit, error) {
	commits, err := r.logTo(ctx, since, to, depth)
	if !errors.Is(err, branch.ErrGone) {
		return commits, err
	}
	// Only heads can be asked for everywhere.
	head, err := r.Head(ctx)
	switch {
	case err != nil:
		return nil, err
	case head == "":
		return nil, fmt.Errorf("%w: there is no branch %s", branch.ErrGone, r.ref.Short())
	}
	return r.logTo(ctx, since, head, depth)
}

func (r *remote) logTo(ctx context.Context, since, to store.Hash, depth int) ([]store.Commit, error) {
	want, err := object.ParseID(to)
	if err != nil {
		return nil, err
	}
	req := newRequest(want)
	if have, err := object.ParseID(since); err == nil {
		req.Haves = []plumbing.Hash{plumbing.Hash(have)}
	}
	if depth > 0 {
		_ = req.Capabilities.Set(capability.Shallow)
		req.Depth = packp.DepthCommits(depth)
	}
	filters, err := r.can(ctx, capability.Filter)
	if err != nil {
		return nil, err
	}
	if filters {
		_ = req.Capabilities.Set(capability.Filter)
		req.Filter = packp.FilterTreeDepth(0)
	}
	var commits []store.Commit
	err = r.fetch(ctx, req, pack.Options{Limits: r.packLimits(maxObjects), Keep: keepCommits}, func(p fetched) (err error) {
		commits, err = p.commits()
		return err
	})
	return commits, r.limited(to, "the history before it: ", err)
}

// can says whether the remote has a capability. It is asked if it did not say
// so yet.
func (r *remote) can(ctx context.Context, c capability.Capability) (bool, error) {
	has := func() (bool, bool) {
		r.http.mu.Lock()
		defer r.http.mu.Unlock()
		return r.http.capabilities[string(c)], r.http.capabilities != nil
	}
	if yes, known := has(); known {
		return yes, nil
	}
	if _, err := r.Head(ctx); err != nil {
		return false, err
	}
	yes, _ := has()
	return yes, nil
}
