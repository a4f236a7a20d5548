package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	controllers "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/controller/apiserviceexport"
	"gitbind.dev/gitbridge/internal/controller/apiserviceexporttemplate"
	"gitbind.dev/gitbridge/internal/controller/clusterbinding"
	"gitbind.dev/gitbridge/internal/controller/request"
	"gitbind.dev/gitbridge/internal/live"
	"gitbind.dev/gitbridge/internal/metrics"
	"gitbind.dev/gitbridge/internal/offered"
	"gitbind.dev/gitbridge/internal/session"
	"gitbind.dev/gitbridge/lease"
)

// Run bridges until ctx ends, or the lease is lost.
func Run(ctx context.Context, config *rest.Config, o Options) error {
	if o.Now == nil {
		o.Now = time.Now
	}
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.UserAgent = "gitbridge"
	elected, err := lease.New(config, o.Lease)
	if err != nil {
		return err
	}
	config.Wrap(elected.Guard)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	shutdown := 20 * time.Second
	no, yes := false, true
	options := ctrl.Options{
		Scheme:                  scheme,
		Metrics:                 server.Options{BindAddress: o.MetricsListen},
		HealthProbeBindAddress:  o.HealthListen,
		PprofBindAddress:        o.PprofListen,
		GracefulShutdownTimeout: &shutdown,
		Controller: controllers.Controller{
			// Its workers may not end with controller-runtime v0.24.1.
			UsePriorityQueue: &no,
			// Each app cluster has a controller of claims.
			SkipNameValidation: &yes,
		},
	}
	elected.Configure(&options)
	mgr, err := ctrl.NewManager(config, options)
	if err != nil {
		return fmt.Errorf("connect to the control plane: %w", err)
	}
	sessions := &session.Registry{}
	if err := addControllers(ctx, mgr, config, o, sessions, elected); err != nil {
		return err
	}
	if err := addChecks(mgr, sessions); err != nil {
		return err
	}
	if err := elected.Tell(mgr); err != nil {
		return err
	}
	if err := elected.Explain(mgr.Start(ctx)); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("run: %w", err)
	}
	return nil
}

func addControllers(ctx context.Context, mgr ctrl.Manager, config *rest.Config, o Options, sessions *session.Registry, elected *lease.Lease) error {
	objects, err := live.New(config, mgr.GetRESTMapper(), func(clusterID string, key contract.Key, now bool) {
		if s := sessions.Get(clusterID); s != nil {
			s.Enqueue(key.Path(), now)
		}
	})
	if err != nil {
		return err
	}
	if err := mgr.Add(objects); err != nil {
		return err
	}
	resolver := &offered.Resolver{Cache: mgr.GetClient(), Server: mgr.GetAPIReader()}
	exports := &apiserviceexport.Reconciler{Client: mgr.GetClient(), Exports: resolver, Sessions: sessions}
	if err := exports.SetupWithManager(ctx, mgr); err != nil {
		return fmt.Errorf("set up the controller of exports: %w", err)
	}
	templates := &apiserviceexporttemplate.Reconciler{Client: mgr.GetClient(), Now: o.Now}
	if err := templates.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("set up the controller of templates: %w", err)
	}
	if err := (&request.Watch{Sessions: sessions}).SetupWithManager(mgr); err != nil {
		return fmt.Errorf("set up the watch of offers and rights: %w", err)
	}
	numbers, err := metrics.NewBridge(ctrlmetrics.Registry)
	if err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	claims := claimsFactory{config: config, client: mgr.GetClient(), server: mgr.GetAPIReader(), apis: resolver, objects: objects, log: mgr.GetLogger(), workers: o.Workers, metrics: numbers, now: o.Now}
	roots, err := roots(o.CAFile)
	if err != nil {
		return err
	}
	bindings := &clusterbinding.Reconciler{
		Client: mgr.GetClient(), Server: mgr.GetAPIReader(), BackendURL: o.BackendURL, RootCAs: roots,
		Sessions: sessions, Claims: claims.of, Guard: elected.Guard, Metrics: numbers, Now: o.Now,
		History: o.StatusHistory, Recorder: mgr.GetEventRecorder("gitbridge"),
		Began: func(s *session.Session) { go exports.Began(ctx, s) },
	}
	if err := bindings.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("set up the controller of cluster bindings: %w", err)
	}
	return nil
}

func addChecks(mgr ctrl.Manager, sessions *session.Registry) error {
	checks := map[string]healthz.Checker{
		"api-server": func(r *http.Request) error {
			ctx, cancel := context.WithTimeout(r.Context(), time.Second)
			defer cancel()
			if !mgr.GetCache().WaitForCacheSync(ctx) {
				return errors.New("the control plane's objects are not known yet")
			}
			return nil
		},
		// One tenant's broken repository is that tenant's trouble.
		"repositories": func(*http.Request) error {
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
		},
	}
	for name, check := range checks {
		if err := mgr.AddReadyzCheck(name, check); err != nil {
			return err
		}
	}
	return mgr.AddHealthzCheck("ping", healthz.Ping)
}
