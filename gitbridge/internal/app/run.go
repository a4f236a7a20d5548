package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/events"
	"gitbind.dev/gitbridge/internal/claimcache"
	"gitbind.dev/gitbridge/internal/controller/apiserviceexport"
	"gitbind.dev/gitbridge/internal/controller/apiserviceexporttemplate"
	"gitbind.dev/gitbridge/internal/controller/clusterbinding"
	"gitbind.dev/gitbridge/internal/controller/dryrun"
	"gitbind.dev/gitbridge/internal/controller/request"
	"gitbind.dev/gitbridge/internal/exportedapi"
	"gitbind.dev/gitbridge/internal/metrics"
	"gitbind.dev/gitbridge/internal/session"
	"gitbind.dev/gitbridge/internal/shard"
	"gitbind.dev/gitbridge/lease"
	"gitbind.dev/gitbridge/program"
)

// Run bridges until ctx ends, or the lease is lost.
func Run(ctx context.Context, config *rest.Config, o Options) error {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Shard = cmp.Or(o.Shard, v1alpha1.DefaultShard)
	o.Lease.Name = v1alpha1.ShardLease(o.Shard)
	shutdown := 20 * time.Second
	// The definition of DryRuns is newer than others.
	defined, err := o.AwaitKind(ctx, config, v1alpha1.GroupVersion.WithKind("DryRun"))
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	mgr, elected, err := o.Manager(ctx, config, "gitbridge", ctrl.Options{GracefulShutdownTimeout: &shutdown, Cache: cached(defined)})
	if err != nil {
		return err
	}
	sessions := &session.Registry{}
	trials := &dryrun.Reconciler{Client: mgr.GetClient(), Server: mgr.GetAPIReader(), Sessions: sessions, Now: o.Now, Events: make(chan event.GenericEvent)}
	if !defined {
		mgr.GetLogger().Info("Proposed changes are not tried: the control plane has no definition of DryRuns. Apply it, and restart gitbridge")
		trials = nil
	}
	if err := addControllers(ctx, mgr, o, sessions, elected, trials); err != nil {
		return err
	}
	if err := mgr.AddReadyzCheck("repositories", ready(sessions)); err != nil {
		return err
	}
	if err := elected.Explain(mgr.Start(ctx)); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("run: %w", err)
	}
	return nil
}

// addControllers adds what works for the app clusters of a shard; without trials, no dry runs.
func addControllers(ctx context.Context, mgr ctrl.Manager, o Options, sessions *session.Registry, elected *lease.Lease, trials *dryrun.Reconciler) error {
	exports := &apiserviceexport.Reconciler{Client: mgr.GetClient(), Server: mgr.GetAPIReader(), Sessions: sessions}
	members, err := shard.Watch(ctx, mgr.GetCache(), o.Shard, func(clusterID string) {
		if s := sessions.Get(clusterID); s != nil && s.View().Main != nil {
			s.EnqueueAll()
			go exports.Began(ctx, s)
		}
		if trials != nil {
			go trials.Joined(ctx, clusterID)
		}
	})
	if err != nil {
		return err
	}
	objects, err := claimcache.New(mgr.GetConfig(), members, func(clusterID string, key contract.Key, now bool) {
		if s := sessions.Get(clusterID); s != nil {
			s.Enqueue(key.Path(), now)
		}
	})
	if err != nil {
		return err
	}
	resolver := &exportedapi.Resolver{Cache: mgr.GetClient(), Server: mgr.GetAPIReader()}
	objects.Bound = func(ctx context.Context) (map[schema.GroupVersionResource]bool, error) {
		return resolver.Bound(ctx, members.HasNamespace)
	}
	if err := mgr.Add(objects); err != nil {
		return err
	}
	exports.Exports, exports.Objects, exports.IsOurs = resolver, objects, members.HasNamespace
	if err := exports.SetupWithManager(ctx, mgr); err != nil {
		return fmt.Errorf("set up the controller of exports: %w", err)
	}
	templates := &apiserviceexporttemplate.Reconciler{Client: mgr.GetClient(), Now: o.Now}
	if err := templates.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("set up the controller of templates: %w", err)
	}
	if trials != nil {
		trials.IsOurs = members.HasNamespace
		if err := trials.SetupWithManager(mgr); err != nil {
			return fmt.Errorf("set up the controller of dry runs: %w", err)
		}
	}
	if err := (&request.Watch{Sessions: sessions}).SetupWithManager(mgr); err != nil {
		return fmt.Errorf("set up the watch of offers and rights: %w", err)
	}
	numbers, err := metrics.NewBridge(prometheus.WrapRegistererWith(prometheus.Labels{"shard": o.Shard}, ctrlmetrics.Registry))
	if err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	signing := &signing{client: mgr.GetClient(), server: mgr.GetAPIReader()}
	claims := claimsFactory{config: mgr.GetConfig(), client: mgr.GetClient(), server: mgr.GetAPIReader(), apis: resolver, objects: objects, log: mgr.GetLogger(), workers: o.Workers, lookLimit: semaphore.NewWeighted(int64(o.Workers)), maxNamespaces: o.MaxNamespaces, metrics: numbers, now: o.Now, signing: signing, escrow: o.EscrowRecipients, usage: exports.SayUsage, counting: make(chan struct{}, maxCounting)}
	roots, err := roots(o.CAFiles)
	if err != nil {
		return err
	}
	bindings := &clusterbinding.Reconciler{
		Client: mgr.GetClient(), Server: mgr.GetAPIReader(), Shard: o.Shard, Leases: &lease.Observer{Server: mgr.GetAPIReader(), Now: time.Now, Options: o.Lease}, BackendURL: o.BackendURL, RootCAs: roots,
		Sessions: sessions, Claims: claims.of, Keys: signing.Public, Guard: elected.Guard, Metrics: numbers, Now: o.Now,
		History: o.StatusHistory, Recorder: events.Recorder{EventRecorder: mgr.GetEventRecorder("gitbridge")},
		Began: func(s *session.Session) { go exports.Began(ctx, s) },
	}
	if o.SignCommits {
		bindings.CommitSigner = signing.Commits
	}
	if err := bindings.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("set up the controller of cluster bindings: %w", err)
	}
	return nil
}

// cached is what the caches keep of objects. All ClusterBindings and exports are there,
// also those of other shards, as a cluster may come from one: of the exports without their
// definitions and policies, which are nearly all that is in them; so it is with dry runs.
func cached(dryRuns bool) cache.Options {
	of := map[client.Object]cache.ByObject{&v1alpha1.APIServiceExport{}: {Transform: program.SlimExport}}
	if dryRuns {
		of[&v1alpha1.DryRun{}] = cache.ByObject{Transform: dryrun.Slim}
	}
	return cache.Options{DefaultTransform: cache.TransformStripManagedFields(), ByObject: of}
}

// ready says that some repository can be followed: one tenant's broken one is that
// tenant's trouble.
func ready(sessions *session.Registry) healthz.Checker {
	return func(*http.Request) error {
		all := sessions.All()
		for _, s := range all {
			if s.Works() {
				return nil
			}
		}
		if len(all) > 0 {
			return fmt.Errorf("none of %d repositories can be followed", len(all))
		}
		return nil
	}
}
