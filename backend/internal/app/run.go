package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/backend/internal/copies"
	"gitbind.dev/backend/internal/events"
	"gitbind.dev/backend/internal/githost/embedded"
	"gitbind.dev/backend/internal/keyring"
	"gitbind.dev/backend/internal/login"
	"gitbind.dev/backend/internal/onboarding"
	"gitbind.dev/backend/internal/pace"
	"gitbind.dev/backend/internal/requests"
	"gitbind.dev/backend/internal/review"
	"gitbind.dev/backend/internal/ui"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/version"
)

// stopTimeout is how long requests have to end when the process is told to.
const stopTimeout = 20 * time.Second

// scopes are those that people sign in with.
var scopes = []string{"openid", "email", "profile", "groups"}

// backend is what the routes and controllers have in common.
type backend struct {
	options
	log     *slog.Logger
	issuers login.Issuers
	cluster *controlPlane
	keys    *keyring.Keyring
	auth    *access.Authenticator
	hub     *events.Hub
	git     *repositories
	// alive are the processes of app clusters that keep in touch.
	alive *copies.Clusters
}

// run wires everything and serves until ctx ends.
func run(ctx context.Context, o options, log *slog.Logger) error {
	issuers, err := o.oidc.issuers(log)
	if err != nil {
		return err
	}
	certificate, err := o.tls.load()
	if err != nil {
		return err
	}
	unlock, err := lock(ctx, o, log)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil // it waited until it was to end
	case err != nil:
		return err
	}
	defer unlock()
	b, err := newBackend(ctx, o, issuers, log)
	if err != nil {
		return err
	}
	api, err := b.api()
	if err != nil {
		return err
	}
	public := newServer(guarded(b.auth.Handler(routes(b.git.served, api)), o.publicURL), pace.Default, log)
	if certificate != nil {
		secure(public, certificate)
	}
	public.RegisterOnShutdown(b.hub.Close)
	// Now, so that a port that is taken is an error before anything runs.
	listeners, err := listen(ctx, log, o.listen, o.HealthListen)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for i, s := range []*http.Server{public, newServer(b.health(), pace.Default, log)} {
		if listeners[i] != nil {
			group.Go(func() error { return serve(ctx, s, listeners[i]) })
		}
	}
	log.Info("Starting", "version", version.String(), "publicURL", o.publicURL, "gitDir", o.gitDir)
	if certificate != nil {
		group.Go(func() error { return watch(ctx, certificate) })
	}
	group.Go(func() error { return issuers.Run(ctx) })
	group.Go(func() error { return b.git.run(ctx) })
	group.Go(func() error { return b.cluster.run(ctx, log) })
	return group.Wait()
}

// lock takes the folder of repositories. While another process has it, this one is alive, and not
// ready.
func lock(ctx context.Context, o options, log *slog.Logger) (unlock func(), err error) {
	stop, err := o.ServeAlive(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	return embedded.Lock(ctx, o.gitDir, log)
}

// newBackend makes all that works below the routes, and adds the controllers. Nothing runs
// yet.
func newBackend(ctx context.Context, o options, issuers login.Issuers, log *slog.Logger) (*backend, error) {
	b := &backend{options: o, log: log, issuers: issuers, hub: events.NewHub(), alive: copies.New(time.Now())}
	var err error
	if b.cluster, err = newControlPlane(ctx, o.Options); err != nil {
		return nil, err
	}
	b.keys = &keyring.Keyring{Client: b.cluster.GetClient(), Live: b.cluster.GetAPIReader(), Lifetime: o.credentialLifetime, Now: time.Now}
	b.auth = &access.Authenticator{
		Clusters: b.cluster.GetClient(), Konnector: b.cluster.konnectorSecrets, Bridge: b.cluster.bridgeSecrets,
		Live: b.cluster.GetAPIReader(), Login: issuers, Reviews: b.cluster.GetClient(), Keys: b.keys, Log: log, Now: time.Now,
	}
	b.keys.Ended = b.auth.End
	if err := b.cluster.watchSecrets(b.auth); err != nil {
		return nil, err
	}
	if b.git, err = newRepositories(ctx, o, b.auth, b.hub, log); err != nil {
		return nil, err
	}
	b.cluster.shards.Given = o.shards
	if err := b.cluster.addControllers(b.git, b.auth.KonnectorSeen, b.alive.Copied); err != nil {
		return nil, err
	}
	if err := b.cluster.lookAtCopies(b.git, log); err != nil {
		return nil, err
	}
	if err := b.cluster.watchQuotas(b.git.counted); err != nil {
		return nil, err
	}
	return b, b.cluster.watchDryRuns(b.git.tried, log)
}

// api is all that the backend answers but Git itself. It is made once.
func (b *backend) api() (http.Handler, error) {
	api := http.NewServeMux()
	stream := &events.Handler{Hub: b.hub, Heads: b.git.local.Heads, Authenticator: b.auth, Log: b.log, KeepAlive: b.keepAlive}
	if b.git.remote != nil {
		stream.Pushed = b.git.pushed
	}
	stream.Mount(api)
	asked := &requests.Server{Login: b.issuers, Log: b.log}
	konnectors := &requests.Konnectors{Agents: b.auth, Log: b.log}
	first := b.issuers[0]
	people := &onboarding.Service{
		Client: b.cluster.GetClient(), Live: b.cluster.GetAPIReader(), Requests: asked, People: b.issuers, Host: b.git.Host, Accounts: b.git.accounts,
		Info:        restapi.Info{Version: version.String(), Issuer: first.URL(), ClientID: first.ClientID(), Scopes: scopes},
		MaxClusters: b.limits.clusters, Shards: b.shards, IsShardFree: b.cluster.shards.IsFree,
		Keys: b.keys, Konnectors: konnectors, KonnectorSeen: b.auth.KonnectorSeen, Began: time.Now(), Copies: b.alive, Log: b.log, Now: time.Now,
	}
	people.Mount(api)
	reviews := &review.Service{
		Requests: asked, Konnectors: konnectors, Access: b.auth, Control: b.cluster.GetClient(), DryRuns: b.cluster.GetClient(), CanTry: b.cluster.canTry, Git: b.git.local,
		PublicURL: b.publicURL, Elsewhere: b.git.elsewhere, Log: b.log, Now: time.Now,
	}
	reviews.Mount(api)
	b.git.connect(api, reviews, b.log)
	if b.web.ui {
		s, err := b.web.signIn(first, b.publicURL, b.log)
		if err != nil {
			return nil, err
		}
		api.Handle("/", web(b.publicURL, s, ui.New(ui.Config{
			Session: s, Asking: asked, Control: people, Reviews: reviews, Git: b.git.local, Elsewhere: b.git.elsewhere != nil, Seen: b.auth.KonnectorSeen, PublicURL: b.publicURL, Log: b.log,
		})))
	}
	return api, nil
}

func (b *backend) health() *health {
	return &health{log: b.log, checks: append(b.git.health(), []check{
		{name: "caches", probe: b.cluster.synced, critical: true},
		{name: "api-server", probe: b.cluster.reachable},
		{name: "oidc", probe: func(context.Context) error { return b.issuers.Ready() }},
	}...)}
}

// routes sends Git's requests to the host as they came: a mux would tidy their
// paths up first.
func routes(host http.Handler, api http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/git/") {
			host.ServeHTTP(w, r)
			return
		}
		api.ServeHTTP(w, r)
	})
}

// listen opens all addresses; the listener of one that is "" or "0" is nil.
func listen(ctx context.Context, log *slog.Logger, addresses ...string) ([]net.Listener, error) {
	listeners := make([]net.Listener, len(addresses))
	for i, address := range addresses {
		if address == "" || address == "0" {
			continue
		}
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		if err != nil {
			for _, open := range listeners[:i] {
				if open != nil {
					err = errors.Join(err, open.Close())
				}
			}
			return nil, err
		}
		log.Info("Listening", "address", l.Addr().String())
		listeners[i] = l
	}
	return listeners, nil
}

// newServer is a server without limits on whole requests: fetches and events
// may last. Those who read bodies set deadlines as they go, and so does the
// writer of every answer.
func newServer(h http.Handler, clients pace.Limits, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           clients.Handler(boundBodies(h, bodyTimeout)),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		// A stream's deadline cannot end it while its connection takes nothing.
		HTTP2:    &http.HTTP2Config{WriteByteTimeout: clients.Idle},
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}

// bodyTimeout is how long a client may leave a body unsent that nobody reads.
const bodyTimeout = 30 * time.Second

// boundBodies gives bodies a deadline before and after a handler: net/http reads
// on after one that did not want the body, and waits for ever for a client that
// does not send it. Handlers that read one have deadlines of their own.
func boundBodies(h http.Handler, timeout time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			bound := func() { _ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(timeout)) }
			bound()
			defer bound()
		}
		h.ServeHTTP(w, r)
	})
}

// serve runs a server until ctx ends, and lets requests end then.
func serve(ctx context.Context, s *http.Server, l net.Listener) error {
	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		stopped <- s.Shutdown(stopping)
	}()
	start := s.Serve
	if s.TLSConfig != nil {
		start = func(l net.Listener) error { return s.ServeTLS(l, "", "") }
	}
	if err := start(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	}
	if err := <-stopped; err != nil {
		return errors.Join(fmt.Errorf("stop %s: %w", l.Addr(), err), s.Close())
	}
	return nil
}
