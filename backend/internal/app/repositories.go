package app

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/backend/internal/events"
	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/backend/internal/githost/embedded"
	"gitbind.dev/backend/internal/refusal"
	"gitbind.dev/backend/internal/review"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/metrics"
)

// repositories are where the flags say.
type repositories struct {
	// Host makes them.
	githost.Host
	// accounts and elsewhere are nil if they are on the embedded host: it asks the backend
	// whom to let in, and changes are reviewed here.
	accounts  githost.Accounts
	elsewhere func(cluster string) string
	// local has them, or copies of them.
	local *embedded.Host
	// served answers what is asked for below /git/.
	served http.Handler
	// remote is the host elsewhere, and kind which one; nil for none.
	remote remoteHost
	kind   *kind
	// publish is told of each branch that moves, and hint of those that agents say have moved.
	publish, hint func(cluster string, e restapi.RefEvent)
	// look brings a copy up to date.
	look func(cluster string)
	// ready tells whether the host elsewhere is there, and may be a while ago.
	ready  func(ctx context.Context) error
	checks *review.Checks
	// pace bounds how much the host elsewhere is asked because of each cluster; nil for none.
	pace *githost.Pace
	// spare is what the host elsewhere lets the backend ask for.
	spare *spare
}

func newRepositories(ctx context.Context, o options, auth *access.Authenticator, hub *events.Hub, log *slog.Logger) (*repositories, error) {
	registry := &metrics.Registry{Registerer: ctrlmetrics.Registry}
	served := registry.Counter("gitbind_host_requests_total", "Pushes (receive) and fetches (upload) of the embedded host, done by the host itself or by git.", "service", "by")
	asked := newHostMetrics(registry)
	r := &repositories{kind: o.remote.chosen(), publish: hub.Publish, hint: hub.PublishHint, spare: asked.spare}
	config := embedded.Config{
		Dir: o.gitDir, PublicURL: o.publicURL, Authenticator: auth, OwnerOf: auth.OwnerOf, Knows: auth.Knows, Moved: r.moved,
		Served:   func(service, by string) { served.WithLabelValues(service, by).Inc() },
		MaxBytes: o.limits.repositoryMiB << 20, MaxRefs: o.limits.branches, MaxWork: o.limits.workMiB << 20, Log: log,
	}
	if r.kind != nil {
		r.remote = r.kind.host(hostConfig{hooks: o.publicURL + r.kind.hooks(), observer: asked, log: log})
		r.pace = &githost.Pace{Every: r.kind.pace}
		config.Upstream, config.Pace = r.remote, r.pace
	}
	var err error
	if r.local, err = embedded.New(ctx, config); err != nil {
		return nil, err
	}
	registry.Measure("gitbind_host_free_bytes", "What the disk of the embedded host's repositories, or of the copies of those elsewhere, has left.", r.local.Free)
	if registry.Err != nil {
		return nil, registry.Err
	}
	r.Host, r.served = r.local, r.local
	r.look = r.local.Look
	if r.remote != nil {
		r.Host, r.accounts, r.elsewhere = r.remote, r.remote, r.remote.Page
		r.ready = remembered(r.remote.Ready, remoteGood)
		r.served = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			refusal.WriteJSON(log, w, req, refusal.New(refusal.NotFound, "the repositories are at %s, and not here", r.kind.page))
		})
	}
	return r, nil
}

// move brings a repository to the host elsewhere from the one that had it before. It is false
// where there is nothing of it here.
func (r *repositories) move(ctx context.Context, cluster string) (bool, error) {
	if here, err := r.local.Exists(ctx, cluster); err != nil || !here {
		return false, err
	}
	if err := r.remote.CreateEmpty(ctx, cluster); err != nil {
		return false, err
	}
	return r.local.Push(ctx, cluster)
}

func (r *repositories) moved(cluster string, e restapi.RefEvent) {
	r.publish(cluster, e)
	if r.checks != nil {
		r.checks.Moved(cluster, e)
	}
}

// pushed is told by the agents of a cluster what they have pushed to the host elsewhere. The
// other agent is told at once, and asks that host itself: to bring the copy up to date first
// would cost time, and requests of a rate limit. A proposed change, which few are, is looked
// at here; any other branch is when somebody reads it.
func (r *repositories) pushed(cluster string, e restapi.RefEvent) {
	switch {
	case e.Ref == contract.MainRef, e.Ref == contract.StatusRef:
		r.hint(cluster, e)
	case strings.HasPrefix(e.Ref, contract.HeadsPrefix+contract.ChangesPrefix):
		r.look(cluster)
	}
}

const (
	// lookEvery is how often each copy is looked at, and lookPause how long there is at least until
	// the next one: with many, or where little is left of the host's rate limit, it is less often.
	lookEvery = 5 * time.Minute
	lookPause = time.Second
)

// lookAtAll looks at each copy in turn until ctx ends: nobody tells of what was pushed, or proposed
// by a pull request, while the backend was away, and a webhook may be lost. Where nothing moved,
// that asks the host for the branches and for the open pull requests. The first time, it has all
// changes judged: what moved may have been copied, and not judged, before the backend was started.
func (r *repositories) lookAtAll(ctx context.Context, clusters func(context.Context) []string) {
	judged := map[string]bool{}
	for ctx.Err() == nil {
		all := clusters(ctx)
		pause := max(lookEvery/time.Duration(max(len(all), 1)), lookPause)
		for i := range max(len(all), 1) {
			pause := max(pause, r.spare.pause(time.Now()))
			if i < len(all) && r.ready(ctx) == nil {
				r.look(all[i])
				if !judged[all[i]] {
					judged[all[i]] = true
					r.tried(all[i])
				}
			}
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return
			}
		}
	}
}

// counted is told of each API of which a cluster uses another part of its quota.
func (r *repositories) counted(cluster, binding string) {
	if r.checks != nil {
		r.checks.Counted(cluster, binding)
	}
}

// tried is told when the bridge has tried a change of a cluster, or may have before this process.
func (r *repositories) tried(cluster string) {
	if r.checks != nil {
		r.checks.Tried(cluster)
	}
}

// connect takes what a host elsewhere tells, and has it show what the control plane says of
// changes. It is called before anything runs.
func (r *repositories) connect(api *http.ServeMux, reviews *review.Service, log *slog.Logger) {
	if r.remote == nil {
		return
	}
	api.Handle("POST "+r.kind.hooks()+"{cluster}", r.remote.Webhook(log, r.look))
	r.checks = review.NewChecks(reviews, r.remote, r.publish)
	r.checks.Pace = r.pace
	reviews.Pulls = r.checks
}

// run works until ctx ends.
func (r *repositories) run(ctx context.Context) error {
	if r.checks != nil {
		var checks sync.WaitGroup
		defer checks.Wait()
		checks.Go(func() { r.checks.Run(ctx) })
	}
	return r.local.Run(ctx)
}

// remoteGood is how long a host elsewhere is not asked whether it is there after it was:
// probes come often, and each question costs of its rate limit.
const remoteGood = time.Minute

// health is whether the repositories are there. People and agents may go on with what else
// there is while nothing can be pushed, or a host elsewhere does not answer.
func (r *repositories) health() []check {
	all := []check{{name: "git-host", probe: r.local.Ready}}
	if r.remote != nil {
		all = append(all, check{name: r.kind.name, probe: r.ready})
	}
	return all
}
