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
	"gitbind.dev/backend/internal/keyring"
	"gitbind.dev/backend/internal/onboarding"
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
	cluster, err := newControlPlane(ctx, o.Options)
	if err != nil {
		return err
	}
	keys := &keyring.Keyring{Client: cluster.GetClient(), Live: cluster.GetAPIReader(), Lifetime: o.credentialLifetime}
	auth := &access.Authenticator{
		Clusters: cluster.GetClient(), Konnector: cluster.konnectorSecrets, Bridge: cluster.bridgeSecrets,
		Live: cluster.GetAPIReader(), Login: issuers, Reviews: cluster.GetClient(), Keys: keys, Log: log,
	}
	keys.Ended = auth.End
	if err := cluster.watchSecrets(auth); err != nil {
		return err
	}
	hub := events.NewHub()
	git, err := newRepositories(ctx, o, auth, hub.Publish, log)
	if err != nil {
		return err
	}
	cluster.shards.Given = o.shards
	alive := copies.New(time.Now())
	if err := cluster.addControllers(git, auth.KonnectorSeen, alive.Copied); err != nil {
		return err
	}

	api := http.NewServeMux()
	(&events.Handler{Hub: hub, Heads: git.local.Heads, Authenticator: auth, Log: log}).Mount(api)
	asked := &requests.Server{Login: issuers, Log: log}
	konnectors := &requests.Konnectors{Agents: auth, Log: log}
	people := &onboarding.Service{
		Client: cluster.GetClient(), Live: cluster.GetAPIReader(), Requests: asked, People: issuers, Host: git.Host, Accounts: git.accounts,
		Info: restapi.Info{
			Version: version.String(), Issuer: issuers[0].URL(), ClientID: issuers[0].ClientID(), Scopes: scopes,
		},
		MaxClusters: o.limits.clusters, Shards: o.shards, IsShardFree: cluster.shards.IsFree,
		Keys: keys, Konnectors: konnectors, KonnectorSeen: auth.KonnectorSeen, Copies: alive, Log: log,
	}
	people.Mount(api)
	reviews := &review.Service{
		Requests: asked, Konnectors: konnectors, Access: auth, Control: cluster.GetClient(), Git: git.local,
		PublicURL: o.publicURL, Elsewhere: git.elsewhere, Log: log,
	}
	reviews.Mount(api)
	git.connect(api, reviews, log)
	if err := cluster.watchQuotas(git.counted); err != nil {
		return err
	}

	health := &health{checks: append(git.health(), []check{
		{name: "caches", probe: cluster.synced, critical: true},
		{name: "api-server", probe: cluster.reachable},
		{name: "oidc", probe: func(context.Context) error { return issuers.Ready() }},
	}...)}
	if o.web.ui {
		s, err := o.web.signIn(issuers[0], o.publicURL, log)
		if err != nil {
			return err
		}
		api.Handle("/", web(o.publicURL, s, ui.New(ui.Config{
			Session: s, Control: people, Reviews: reviews, Git: git.local, Elsewhere: git.elsewhere != nil, Seen: auth.KonnectorSeen, PublicURL: o.publicURL, Log: log,
		})))
	}
	public := newServer(guarded(auth.Handler(routes(git.served, api)), o.publicURL), log)
	if certificate != nil {
		secure(public, certificate)
	}
	public.RegisterOnShutdown(hub.Close)
	// Now, so that a port that is taken is an error before anything runs.
	listeners, err := listen(ctx, log, o.listen, o.HealthListen)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for i, s := range []*http.Server{public, newServer(health, log)} {
		if listeners[i] != nil {
			group.Go(func() error { return serve(ctx, s, listeners[i]) })
		}
	}
	log.Info("Starting", "version", version.String(), "publicURL", o.publicURL, "gitDir", o.gitDir)
	if certificate != nil {
		group.Go(func() error { return watch(ctx, certificate) })
	}
	group.Go(func() error { return issuers.Run(ctx) })
	group.Go(func() error { return git.run(ctx) })
	group.Go(func() error { return cluster.run(ctx, log) })
	return group.Wait()
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
// may last. Those who read bodies and write answers set deadlines as they go.
func newServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           boundBodies(h, bodyTimeout),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
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
