package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"sort"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/client-go/util/workqueue"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/backend/internal/clusterqueue"
	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/backend/internal/pace"
	"gitbind.dev/backend/internal/refusal"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/store/memory"
)

// Authenticator tells who makes a request about one cluster, or refuses with a
// refusal: Unauthenticated when nobody is let in, NotFound for somebody known
// to whom this cluster is none.
type Authenticator interface {
	Authenticate(r *http.Request, cluster string) (access.Caller, error)
}

// Config is what a Host is made of.
type Config struct {
	// Dir holds the repositories. One process at a time may work on it: see Lock.
	Dir string
	// PublicURL is under which clients reach the backend, without a slash at
	// its end.
	PublicURL string
	// Authenticator lets callers in.
	Authenticator Authenticator
	// OwnerOf tells to whom a cluster belongs, in any form that is the same for
	// all clusters of one owner, and "" where that is not known; nil means that
	// each cluster has an owner of its own.
	OwnerOf func(ctx context.Context, cluster string) string
	// Knows tells whether there is a cluster, or may be one; nil means that there is any. Nothing
	// is copied of what Upstream has of others.
	Knows func(ctx context.Context, cluster string) bool
	// Moved is told of each branch that a push moved, in the order of the
	// moves of one repository. It must not block: the next push waits for it.
	Moved func(cluster string, e restapi.RefEvent)
	// Served, if not nil, counts the pushes ("receive") and fetches ("upload") that were
	// answered, and by what: "host" or "git".
	Served func(service, by string)
	// MaxPush is the largest push, in bytes; 0 means 64 MiB.
	MaxPush int64
	// MaxBytes and MaxRefs are how large a repository may be on the disk, and how
	// many branches it may have; 0 means 512 MiB and 5000.
	MaxBytes int64
	MaxRefs  int
	// MaxWork is how many bytes a second of one owner's pushes and fetches are worked on; 0
	// means 3 MiB for each processor.
	MaxWork int64
	// RepackAfter is the number of pushes after which a repository is
	// repacked; 0 means 100.
	RepackAfter int64
	// Upstream, if not nil, is where the repositories are: this Host then has copies of
	// them, which nobody pushes to.
	Upstream Upstream
	// Pace bounds how much Upstream is asked because of each cluster; nil means no bound.
	Pace *githost.Pace
	Log  *slog.Logger
}

// The quotas of a repository, if the configuration says nothing else.
const (
	DefaultMaxBytes = 512 << 20
	DefaultMaxRefs  = 5000
)

const (
	// maxReceives and maxUploads bound the requests that git works on at the same
	// time, over all repositories. A push may hold 100 MiB while it is checked; a
	// client takes what git writes as slowly as it may.
	maxReceives = 16
	maxUploads  = 64
	// maxPushes and maxFetches bound the requests that are being read, wait or are
	// answered. Each may have a file for its body: 64 MiB of a push, 8 MiB of a
	// fetch, which is what the volume for temporary files must hold.
	maxPushes  = 64
	maxFetches = 256

	// cacheOfEach bounds the cache of a repository, and cacheOfAll those of all together, in
	// bytes.
	cacheOfEach = 2 << 20
	cacheOfAll  = 64 << 20
)

// Host is the embedded Git host. It is an http.Handler for everything below
// /git/.
type Host struct {
	cfg Config
	git *git
	// receives and uploads are git's work on pushes and fetches, pushing and
	// fetching the requests around it, reads what people look at.
	receives, uploads, pushing, fetching, reads *places
	// clientLimits are those of slow clients.
	clientLimits pace.Limits
	// repack are the repositories that are to be repacked, by their ids. repackBackoff is how long
	// they wait after one that failed, and collectBackoff with the next full one.
	repack                        *clusterqueue.Queue
	repackBackoff, collectBackoff workqueue.TypedRateLimiter[string]

	extents *extents
	caches  *caches
	recent  *recent
	// copies is nil without Upstream.
	copies *copies
	rates  *workRates
	// memory is that of all pushes in work.
	memory  *memory.Budget
	started time.Time
	// now is the clock that old objects' age is told by.
	now func() time.Time
	// readTimeout bounds what git reads for people, and copyWait how long somebody who looks at a
	// copy waits for it to be brought up to date.
	readTimeout, copyWait time.Duration
	// reserve is how much space a push must leave.
	reserve int64

	mu    sync.Mutex
	repos map[string]*repository
}

var _ githost.Host = (*Host)(nil)

// New opens the directory of repositories, and makes it where it is not there.
// It fails when git is missing or too old.
func New(ctx context.Context, cfg Config) (*Host, error) {
	g, err := newGit(ctx, cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("open Git host: %w", err)
	}
	if err := sweep(g.dir); err != nil {
		return nil, fmt.Errorf("open Git host: %w", err)
	}
	if cfg.MaxPush == 0 {
		cfg.MaxPush = defaultMaxPush
	}
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = DefaultMaxBytes
	}
	if cfg.MaxRefs == 0 {
		cfg.MaxRefs = DefaultMaxRefs
	}
	if cfg.MaxWork == 0 {
		cfg.MaxWork = int64(workPerProcessor * runtime.NumCPU())
	}
	if cfg.RepackAfter == 0 {
		cfg.RepackAfter = 100
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	h := &Host{
		cfg:            cfg,
		git:            g,
		receives:       newPlaces(maxReceives, 4, 2),
		uploads:        newPlaces(maxUploads, 8, 4),
		pushing:        newPlaces(maxPushes, 8, 4),
		fetching:       newPlaces(maxFetches, 16, 8),
		reads:          newPlaces(2*maxReads, 4, maxRepositoryReads), // people take half
		clientLimits:   pace.Default,
		repackBackoff:  newRepackBackoff(),
		collectBackoff: newRepackBackoff(),
		extents:        &extents{},
		caches:         newCaches(cacheOfAll, cacheOfEach),
		recent:         newRecent(),
		rates:          &workRates{limit: rate.Limit(cfg.MaxWork), burst: workBurst},
		memory:         memory.NewBudget(pushMemory),
		started:        time.Now(),
		now:            time.Now,
		readTimeout:    defaultReadTimeout,
		copyWait:       defaultCopyWait,
		reserve:        diskReserve,
		repos:          map[string]*repository{},
	}
	h.repack = clusterqueue.New(1, h.repackQueued)
	if cfg.Upstream != nil {
		h.copies = newCopies(h.updateMoved)
	}
	return h, nil
}

// sweep removes what an end in the middle of a create has left.
func sweep(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, newPrefix+"*"))
	if err != nil {
		return err
	}
	for _, path := range left {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return nil
}

// Create implements githost.Host.
func (h *Host) Create(ctx context.Context, id string) error {
	if repo, ok, err := h.repository(id); err != nil || ok {
		if ok {
			err = repo.ownAgain(ctx)
		}
		return err
	}
	if err := h.open(id).create(ctx, time.Now()); err != nil {
		return fmt.Errorf("create repository %s: %w", id, err)
	}
	return nil
}

// Exists implements githost.Host.
func (h *Host) Exists(_ context.Context, id string) (bool, error) {
	_, ok, err := h.repository(id)
	return ok, err
}

// URL implements githost.Host.
func (h *Host) URL(id string) string {
	return strings.TrimSuffix(h.cfg.PublicURL, "/") + "/git/" + id + ".git"
}

// Ready tells whether the directory of repositories can be written.
func (h *Host) Ready(context.Context) error {
	f, err := os.CreateTemp(h.git.dir, ".ready-")
	if err != nil {
		return fmt.Errorf("git host: %w", err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// Heads are the branches of a cluster's repository, as they are now.
func (h *Host) Heads(ctx context.Context, id string) ([]restapi.RefEvent, error) {
	h.fresh(ctx, id)
	repo, ok, err := h.repository(id)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, refusal.New(refusal.NotFound, "repository not found")
	}
	heads, err := repo.heads(ctx, h.cfg.MaxRefs)
	if err != nil {
		return nil, err
	}
	events := make([]restapi.RefEvent, 0, len(heads))
	for ref, hash := range heads {
		events = append(events, restapi.RefEvent{Ref: ref, Hash: hash})
	}
	sort.Slice(events, func(i, j int) bool { return events[i].Ref < events[j].Ref })
	return events, nil
}

// repository gives the repository with this id; ok is false when there is
// none.
func (h *Host) repository(id string) (repo *repository, ok bool, err error) {
	// It becomes part of a path on disk.
	if !v1alpha1.ValidClusterID(id) {
		return nil, false, fmt.Errorf("%q is no repository id", abbreviate(id))
	}
	h.mu.Lock()
	before := h.repos[id]
	h.mu.Unlock()
	// Asked each time: an operator may remove a repository while we run.
	ok, err = h.open(id).exists()
	h.mu.Lock()
	if err == nil && !ok && h.repos[id] == before { // otherwise it was made since
		delete(h.repos, id)
	}
	repo = h.repos[id]
	h.mu.Unlock()
	if err != nil || !ok || repo != nil {
		return repo, ok, err
	}
	repo = h.open(id)
	if err := repo.sweepLocks(h.started); err != nil {
		return nil, false, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if first, ok := h.repos[id]; ok {
		return first, true, nil
	}
	h.repos[id] = repo
	return repo, true, nil
}

func (h *Host) open(id string) *repository {
	return &repository{
		id:      id,
		dir:     filepath.Join(h.git.dir, id+".git"),
		git:     h.git,
		turn:    make(chan struct{}, 1),
		objects: h.caches.open(),
		extents: h.extents,
	}
}
