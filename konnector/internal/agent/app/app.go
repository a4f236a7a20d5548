// Package app puts the konnector together: flags, logging, and which part gets
// which. It decides nothing.
package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/intake"
	"gitbind.dev/gitbridge/lease"
	"gitbind.dev/konnector/internal/agent/controller/apiservicebinding"
	"gitbind.dev/konnector/internal/agent/controller/claim"
	"gitbind.dev/konnector/internal/agent/controller/connection"
	"gitbind.dev/konnector/internal/agent/metrics"
	"gitbind.dev/konnector/internal/agent/renewal"
	"gitbind.dev/konnector/internal/agent/repository"
)

// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch;update
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=gitbind-system,resources=leases,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=gitbind-system,resources=leases,resourceNames=gitbind-konnector,verbs=get;update

// Options say for which cluster, and how.
type Options struct {
	// Config is the konnector's identity in the app cluster.
	Config *rest.Config
	// HealthListen and MetricsListen are addresses; "0" for none.
	HealthListen, MetricsListen string
	// PprofListen is an address for profiles; "" or "0" for none.
	PprofListen string
	// Namespace is where the Secrets of Connections lie.
	Namespace string
	// Workers is how many claims of one API are worked on at once.
	Workers int
	// Lease is how one of several konnectors comes to work. The zero value is
	// for one that is alone.
	Lease lease.Options
	// Now is the clock; time.Now when it is nil.
	Now func() time.Time
}

// Run works until ctx ends, or the lease is lost.
func Run(ctx context.Context, o Options) error {
	if o.Now == nil {
		o.Now = time.Now
	}
	elected, err := lease.New(o.Config, o.Lease)
	if err != nil {
		return fmt.Errorf("start konnector: %w", err)
	}
	mgr, err := manager(ctx, o, elected)
	if err != nil {
		return fmt.Errorf("start konnector: %w", err)
	}
	numbers, err := metrics.NewKonnector(ctrlmetrics.Registry)
	if err != nil {
		return fmt.Errorf("start konnector: register metrics: %w", err)
	}
	pool := repository.NewPool()
	bindings := &apiservicebinding.Reconciler{
		Client: mgr.GetClient(),
		Live:   mgr.GetAPIReader(),
		Mapper: mgr.GetRESTMapper(),
		Pool:   pool,

		Recorder: mgr.GetEventRecorder("konnector"),
	}
	bindings.Claims = &claim.Controllers{
		Cache:    mgr.GetCache(),
		Live:     mgr.GetAPIReader(),
		Client:   mgr.GetClient(),
		Recorder: mgr.GetEventRecorder("konnector"),
		Logger:   mgr.GetLogger(),
		Workers:  o.Workers,
		Metrics:  numbers,
		OnChange: bindings.HeldChanged,
	}
	connections := &connection.Reconciler{
		Client:    mgr.GetClient(),
		Live:      mgr.GetAPIReader(),
		Pool:      pool,
		Namespace: o.Namespace,
		Guard:     elected.Guard,
		Metrics:   numbers,
		Now:       o.Now,
	}
	credentials := &renewal.Reconciler{
		Client: mgr.GetClient(), Namespace: o.Namespace, InUse: connections.InUse, Guard: elected.Guard, Now: o.Now,
	}
	for what, err := range map[string]error{
		"credentials":        credentials.AddToManager(mgr),
		"lease":              elected.Tell(mgr),
		"repositories":       mgr.Add(pool),
		"claims":             mgr.Add(bindings.Claims),
		"connections":        connections.AddToManager(mgr),
		"bindings":           bindings.AddToManager(mgr),
		"healthz":            mgr.AddHealthzCheck("alive", healthz.Ping),
		"readyz, caches":     mgr.AddReadyzCheck("caches", cachesFilled(mgr.GetCache())),
		"readyz, repository": mgr.AddReadyzCheck("repositories", repositoriesReached(pool)),
	} {
		if err != nil {
			return fmt.Errorf("set up %s: %w", what, err)
		}
	}
	return elected.Explain(mgr.Start(ctx))
}

func manager(ctx context.Context, o Options, elected *lease.Lease) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	cfg := rest.CopyConfig(o.Config)
	// The API server has its own priority and fairness.
	cfg.QPS = -1
	rest.AddUserAgent(cfg, "gitbind-konnector")
	cfg.Wrap(elected.Guard)
	options := ctrl.Options{
		Scheme: scheme,
		Logger: ctrl.LoggerFrom(ctx),
		Cache: cache.Options{
			DefaultTransform: claim.ForCache,
			ByObject: map[client.Object]cache.ByObject{
				&corev1.Secret{}: {Namespaces: map[string]cache.Config{o.Namespace: {}}},
				&apiextensionsv1.CustomResourceDefinition{}: {Label: labels.SelectorFromSet(labels.Set{
					v1alpha1.ManagedByLabel: v1alpha1.ManagedByKonnector,
				})},
			},
		},
		Controller: config.Controller{
			// More than one konnector in a process happens in tests only.
			SkipNameValidation: new(true),
			// It can lock itself up when it is shut down: see claim's gate.
			UsePriorityQueue: new(false),
		},
		NewCache:               intake.NewCache,
		HealthProbeBindAddress: o.HealthListen,
		PprofBindAddress:       o.PprofListen,
		Metrics:                server.Options{BindAddress: o.MetricsListen},
	}
	elected.Configure(&options)
	return ctrl.NewManager(cfg, options)
}

func cachesFilled(c cache.Cache) healthz.Checker {
	return func(req *http.Request) error {
		ctx, cancel := context.WithTimeout(req.Context(), time.Second)
		defer cancel()
		if !c.WaitForCacheSync(ctx) {
			return errors.New("caches are not filled yet")
		}
		return nil
	}
}

// repositoriesReached says in /readyz what Connections say in their conditions.
func repositoriesReached(pool *repository.Pool) healthz.Checker {
	return func(*http.Request) error {
		var all []error
		for _, r := range pool.All() {
			switch h := r.Health(); {
			case h.Err() != nil:
				_, message := repository.Explain(h.Err())
				all = append(all, fmt.Errorf("connection %s: %s", r.Connection, message))
			case !h.Contacted:
				all = append(all, fmt.Errorf("connection %s: the repository was not reached yet", r.Connection))
			}
		}
		return errors.Join(all...)
	}
}
