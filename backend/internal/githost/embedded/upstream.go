package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"

	"gitbind.dev/backend/internal/clusterqueue"
	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/contract"
)

// Upstream says where repositories are, of which a Host then has copies to look at.
type Upstream interface {
	// Remote is the clone URL of a cluster's repository, with an HTTP basic credential.
	Remote(ctx context.Context, cluster string) (url, username, password string, err error)
	// Changes are the refs of changes that are proposed there otherwise than by a branch
	// changes/…, with what their copies are named: "refs/pull/7/head": "changes/pull-7".
	Changes(ctx context.Context, cluster string) (map[string]string, error)
}

const (
	// copyEvery is how old a copy may be when somebody looks at it.
	copyEvery = 10 * time.Second
	// copyTimeout bounds a fetch, and defaultCopyWait how long somebody waits for it who looks.
	copyTimeout     = time.Minute
	defaultCopyWait = 3 * time.Second
)

// maxRefsAnswer is how much is read of what a host says of its refs, in bytes: it is kept in memory.
const maxRefsAnswer = 16 << 20

// errManyRefs says that there are more.
var errManyRefs = fmt.Errorf("the repository has more refs on its Git host than fit in %d MiB: delete branches and tags there that nobody needs", maxRefsAnswer>>20)

// copies are what a Host knows of its copies.
type copies struct {
	http   *http.Client
	client transport.Transport
	mu     sync.Mutex
	of     map[string]*copied
	// moved are those that were said to have moved.
	moved *clusterqueue.Queue
}

// copied is one copy. The caller that has its turn brings it up to date.
type copied struct {
	turn chan struct{}
	// since is from when on somebody has had it, in nanoseconds since 1970; 0 for nobody.
	since atomic.Int64
	// tried is when that was done last, and failed how it ended.
	tried  time.Time
	failed error
}

// boundedRefs reads maxRefsAnswer of the answer to each GET: a list of refs, as Git posts all else.
type boundedRefs struct{ http.RoundTripper }

func (b boundedRefs) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.RoundTripper.RoundTrip(r)
	if err == nil && r.Method == http.MethodGet {
		answer.Body = http.MaxBytesReader(nil, answer.Body, maxRefsAnswer)
	}
	return answer, err
}

// refsThere are the refs that a host has, none where its repository is empty.
func refsThere(ctx context.Context, session transport.Session) (*packp.AdvRefs, error) {
	advertised, err := session.AdvertisedReferencesContext(ctx)
	switch {
	case errors.Is(err, transport.ErrEmptyRemoteRepository):
		return packp.NewAdvRefs(), nil
	case errors.As(err, new(*http.MaxBytesError)):
		return nil, errManyRefs
	}
	return advertised, err
}

// newCopies has do fetch from repositories that were said to have moved.
func newCopies(do func(ctx context.Context, cluster string) error) *copies {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.ResponseHeaderTimeout = copyTimeout
	c := &http.Client{Transport: boundedRefs{t}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return &copies{
		http:   c,
		client: githttp.NewClientWithOptions(c, &githttp.ClientOptions{RedirectPolicy: githttp.NoFollowRedirects}),
		of:     map[string]*copied{},
		moved:  clusterqueue.New(maxCopying, do),
	}
}

func (c *copied) take(ctx context.Context) error {
	select {
	case c.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *copied) give() { <-c.turn }

func (c *copies) get(cluster string) *copied {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of[cluster] == nil {
		c.of[cluster] = &copied{turn: make(chan struct{}, 1)}
	}
	return c.of[cluster]
}

// Look says that a repository has moved where it is. It does not block. The copy is brought up to
// date at once, or when Pace lets it.
func (h *Host) Look(cluster string) { h.copies.moved.Add(cluster) }

// updateMoved brings up to date the copy of a repository that was said to have moved.
func (h *Host) updateMoved(ctx context.Context, cluster string) error {
	if wait := h.cfg.Pace.Wait(cluster); wait > 0 {
		return &clusterqueue.LaterError{After: wait}
	}
	return h.update(ctx, cluster, 0, copyTimeout)
}

// maxCopying is how many repositories are fetched from at the same time.
const maxCopying = 8

// refresh brings the copy of a repository up to date, unless that was tried not longer ago
// than age, and tells Moved of the branches that have moved.
func (h *Host) refresh(ctx context.Context, cluster string, age time.Duration) error {
	c := h.copies.get(cluster)
	if since := c.since.Load(); age > 0 && since != 0 && time.Since(time.Unix(0, since)) > h.copyWait {
		return fmt.Errorf("copy repository %s: the host takes long", cluster)
	}
	if err := c.take(ctx); err != nil {
		return fmt.Errorf("copy repository %s: %w", cluster, err)
	}
	defer c.give()
	if now := h.now(); c.tried.IsZero() || now.Sub(c.tried) >= age {
		c.since.Store(time.Now().UnixNano())
		c.tried, c.failed = now, h.fetchCopy(ctx, cluster)
		c.since.Store(0)
	}
	return c.failed
}

func (h *Host) fetchCopy(ctx context.Context, cluster string) error {
	if h.cfg.Knows != nil && !h.cfg.Knows(ctx, cluster) {
		return nil
	}
	repo, ok, err := h.repository(cluster)
	if err == nil && !ok {
		if err = h.open(cluster).make(ctx, func(string) error { return nil }); err == nil {
			repo, ok, err = h.repository(cluster)
		}
	}
	if err != nil || !ok {
		return errors.Join(fmt.Errorf("copy repository %s", cluster), err)
	}
	if err := h.copy(ctx, repo); err != nil {
		return fmt.Errorf("copy repository %s: %w", cluster, err)
	}
	return nil
}

// remoteRepository is one where Upstream has it.
type remoteRepository struct {
	url      string
	endpoint *transport.Endpoint
	auth     *githttp.BasicAuth
}

func (h *Host) upstream(ctx context.Context, cluster string) (remoteRepository, error) {
	url, username, password, err := h.cfg.Upstream.Remote(ctx, cluster)
	if err != nil {
		return remoteRepository{}, err
	}
	endpoint, err := transport.NewEndpoint(url)
	return remoteRepository{url, endpoint, &githttp.BasicAuth{Username: username, Password: password}}, err
}

// copy fetches what is new.
func (h *Host) copy(ctx context.Context, repo *repository) error {
	there, err := h.upstream(ctx, repo.id)
	if err != nil {
		return err
	}
	session, err := h.copies.client.NewUploadPackSession(there.endpoint, there.auth)
	if err != nil {
		return err
	}
	defer session.Close()
	advertised, err := refsThere(ctx, session)
	if err != nil {
		return err
	}
	changes, err := h.cfg.Upstream.Changes(h.cfg.Pace.With(ctx, repo.id), repo.id)
	if err != nil {
		return err
	}
	branches := branchesOf(advertised, changes)
	if len(branches) > h.cfg.MaxRefs {
		return fmt.Errorf("it has %d branches, at most %d", len(branches), h.cfg.MaxRefs)
	}
	if err := repo.lock(ctx); err != nil {
		return err
	}
	defer repo.unlock()
	here, err := repo.heads(ctx, h.cfg.MaxRefs)
	if err != nil {
		return err
	}
	if maps.Equal(here, branches) {
		return nil
	}
	if err := h.copyObjects(ctx, repo, session, advertised, branches, here); err != nil {
		if errors.Is(err, githost.ErrFull) {
			h.countPush(repo) // a repack may make room
		}
		return err
	}
	if err := repo.becomesCopyOf(ctx, there.url, here, branches); err != nil {
		return err
	}
	moved, err := repo.setRefs(ctx, branches, here)
	for _, e := range moved {
		if h.cfg.Moved != nil {
			h.cfg.Moved(repo.id, e)
		}
	}
	if err != nil {
		return err
	}
	h.countPush(repo)
	return nil
}

// branchesOf are the branches that a copy has, of what a host shows and the refs of its changes:
// those of the contract. Another one could stand where git has a folder for these.
func branchesOf(advertised *packp.AdvRefs, changes map[string]string) map[string]string {
	branches := map[string]string{}
	for ref, hash := range advertised.References {
		if branch := changes[ref]; branch != "" {
			ref = contract.HeadsPrefix + branch
		} else if namedAsPull(ref) {
			continue // it would be taken for somebody else's change
		}
		if (ref == mainRef || ref == statusRef || proposal(ref)) && validRef(ref) {
			branches[ref] = hash.String()
		}
	}
	return branches
}

// namedAsPull tells whether a ref has the name that the copy of a pull request has, or stands where
// git has a folder for that.
func namedAsPull(ref string) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(ref, changesPrefix), "/")
	_, ok := githost.PullNumber(contract.ChangesPrefix + first)
	return ok
}

// copyObjects has git store the pack of what is there and not here.
func (h *Host) copyObjects(ctx context.Context, repo *repository, session transport.UploadPackSession, advertised *packp.AdvRefs, there, here map[string]string) error {
	have := slices.Sorted(maps.Values(here))
	request := packp.NewUploadPackRequestFromCapabilities(advertised.Capabilities)
	for _, hash := range there {
		if _, known := slices.BinarySearch(have, hash); !known && !slices.Contains(request.Wants, plumbing.NewHash(hash)) {
			request.Wants = append(request.Wants, plumbing.NewHash(hash))
		}
	}
	if len(request.Wants) == 0 {
		return nil
	}
	for _, hash := range slices.Compact(have) {
		request.Haves = append(request.Haves, plumbing.NewHash(hash))
	}
	answer, err := session.UploadPack(ctx, request)
	if errors.Is(err, transport.ErrEmptyUploadPackRequest) {
		return nil
	}
	if err != nil {
		return err
	}
	defer answer.Close()
	var pack io.Reader = answer
	switch {
	case request.Capabilities.Supports(capability.Sideband64k):
		pack = sideband.NewDemuxer(sideband.Sideband64k, answer)
	case request.Capabilities.Supports(capability.Sideband):
		pack = sideband.NewDemuxer(sideband.Sideband, answer)
	}
	return h.storeCopied(ctx, repo, pack)
}

// storeCopied has git store a pack as long as there is room for it. Git leaves what it has of one
// that it cannot take as a whole: that is of no repository until it is whole.
func (h *Host) storeCopied(ctx context.Context, repo *repository, pack io.Reader) error {
	apart, objects, err := repo.apart()
	if err != nil {
		return err
	}
	defer os.RemoveAll(objects)
	bounded := &boundedPack{Reader: pack, host: h, left: h.cfg.MaxBytes - repo.measure()}
	cmd := apart.git.command(ctx, repo.dir, "index-pack", "--stdin", "--fix-thin", "--strict")
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = bounded, &stderr
	err = repo.git.run(cmd)
	switch {
	case bounded.full != nil:
		return bounded.full
	case err != nil:
		return fmt.Errorf("git index-pack: %w: %s", err, strings.TrimSpace(abbreviate(stderr.String())))
	}
	made, err := filepath.Glob(filepath.Join(objects, "pack", "pack-*"))
	if err != nil || len(made) == 0 {
		return err
	}
	name, files := "", map[string]string{}
	for _, file := range made {
		kind := filepath.Ext(file)
		name, files[strings.TrimPrefix(kind, ".")] = strings.TrimSuffix(filepath.Base(file), kind), file
	}
	repo.size.Store(0) // it is measured when somebody asks
	return movePack(filepath.Join(repo.dir, "objects", "pack", name), files)
}

// boundedPack ends where a repository, or the disk, has no room for more of it.
type boundedPack struct {
	io.Reader
	host *Host
	// left is for how many bytes the repository has room, and unasked how many may come until
	// the disk is asked for its own.
	left, unasked int64
	// full says that there was no room.
	full error
}

// askDiskEvery is after how many bytes the disk is asked again: well below its reserve.
const askDiskEvery = 4 << 20

func (b *boundedPack) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.left -= int64(n)
	b.unasked -= int64(n)
	asks := b.unasked <= 0
	if asks {
		b.unasked = askDiskEvery
	}
	switch {
	case asks && !b.host.hasRoom(0):
		b.full = fmt.Errorf("%w: make room on the volume of --git-dir", &noRoom{what: diskFull})
	case b.left < 0:
		b.full = fmt.Errorf("%w: with what is new the copy would have more than %s: give repositories more room with --max-repository-size",
			&noRoom{what: quotaFull}, mebibytes(b.host.cfg.MaxBytes))
	}
	if b.full != nil {
		return 0, b.full
	}
	return n, err
}

// setRefs makes the branches here as they are there, and gives those that have moved, also with
// an error.
func (r *repository) setRefs(ctx context.Context, there, here map[string]string) ([]restapi.RefEvent, error) {
	var main, gone, others []restapi.RefEvent
	for _, ref := range slices.Sorted(maps.Keys(here)) {
		if there[ref] == "" {
			gone = append(gone, restapi.RefEvent{Ref: ref})
		}
	}
	for _, ref := range slices.Sorted(maps.Keys(there)) {
		switch e := (restapi.RefEvent{Ref: ref, Hash: there[ref]}); {
		case here[ref] == there[ref]:
		case ref == mainRef:
			main = append(main, e)
		default:
			others = append(others, e)
		}
	}
	var moved []restapi.RefEvent
	// Main first: who finds that a branch is gone asks main whether it was merged. The others last:
	// git sets no branch changes/fix/typo in a transaction that deletes changes/fix.
	for _, step := range [][]restapi.RefEvent{main, gone, others} {
		if len(step) == 0 {
			continue
		}
		var commands strings.Builder
		for _, e := range step {
			if e.Hash == "" {
				fmt.Fprintf(&commands, "delete %s\x00\x00", e.Ref)
			} else {
				fmt.Fprintf(&commands, "update %s\x00%s\x00\x00", e.Ref, e.Hash)
			}
		}
		if _, err := r.git.output(ctx, r.dir, []byte(commands.String()), "update-ref", "-z", "--stdin"); err != nil {
			return moved, err
		}
		moved = append(moved, step...)
	}
	return moved, nil
}

// fresh brings a copy up to date before it is read. What is read of an older one, because
// the host that it is of does not answer, is better than nothing.
func (h *Host) fresh(ctx context.Context, cluster string) {
	if h.copies == nil {
		return
	}
	wait := h.copyWait
	if end, ok := ctx.Deadline(); ok {
		// Some time is left to read what there is.
		wait = min(wait, time.Until(end)/2)
	}
	if err := h.update(ctx, cluster, copyEvery, wait); errors.Is(err, context.DeadlineExceeded) {
		h.Look(cluster) // with more time
	}
}

// update is refresh within a time, and logs what went wrong.
func (h *Host) update(ctx context.Context, cluster string, age, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	err := h.refresh(ctx, cluster, age)
	if err != nil {
		log := h.cfg.Log.WarnContext
		if no := (*noRoom)(nil); errors.As(err, &no) && no.what == diskFull {
			log = h.cfg.Log.ErrorContext
		}
		log(ctx, "A copy of a repository is not up to date", "cluster", cluster, "error", err)
	}
	return err
}
