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
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/encryption"
	"gitbind.dev/gitbridge/events"
	"gitbind.dev/gitbridge/lease"
	"gitbind.dev/gitbridge/program"
	"gitbind.dev/konnector/internal/agent/budget"
	"gitbind.dev/konnector/internal/agent/controller/apiservicebinding"
	"gitbind.dev/konnector/internal/agent/controller/claim"
	"gitbind.dev/konnector/internal/agent/controller/connection"
	"gitbind.dev/konnector/internal/agent/heartbeat"
	"gitbind.dev/konnector/internal/agent/keys"
	"gitbind.dev/konnector/internal/agent/metrics"
	"gitbind.dev/konnector/internal/agent/renewal"
	"gitbind.dev/konnector/internal/agent/repository"
)

// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=gitbind-system,resources=leases,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=gitbind-system,resources=leases,resourceNames=gitbind-konnector,verbs=get;update

// Name is what the konnector calls itself, and its Lease.
const Name = "gitbind-konnector"

// Options say for which cluster, and how.
type Options struct {
	program.Options
	// Config is the konnector's identity in the app cluster.
	Config *rest.Config
	// Namespace is where the Secrets of Connections lie.
	Namespace string
	// Workers is how many claims of one API are worked on at once.
	Workers int
	// Opener opens what travels encrypted to a Connection, by its name; nil for the
	// konnector's own keys.
	Opener func(connection string) *encryption.Opener
	// Sender is the same for what travels from here.
	Sender func(connection string) *encryption.Sender
	// Now is the clock; time.Now when it is nil.
	Now func() time.Time
}

// Run works until ctx ends, or the lease is lost.
func Run(ctx context.Context, o Options) error {
	if o.Now == nil {
		o.Now = time.Now
	}
	_, err := o.AwaitKind(ctx, o.Config, v1alpha1.GroupVersion.WithKind("Connection"))
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("start konnector: %w", err)
	}
	mgr, elected, err := manager(ctx, o)
	if err != nil {
		return fmt.Errorf("start konnector: %w", err)
	}
	numbers, err := metrics.NewKonnector(ctrlmetrics.Registry)
	if err != nil {
		return fmt.Errorf("start konnector: register metrics: %w", err)
	}
	pool := repository.NewPool()
	encrypted := &keys.Reconciler{Client: mgr.GetClient(), Namespace: o.Namespace, Guard: elected.Guard, Now: o.Now}
	if o.Opener == nil {
		o.Opener = encrypted.Opener
	}
	if o.Sender == nil {
		o.Sender = encrypted.Sender
	}
	encrypted.Changed = func(connection string) {
		if r := pool.Get(connection); r != nil {
			setNewest(r.SetOpener, func() *encryption.Opener { return o.Opener(connection) })
			setNewest(r.SetSender, func() *encryption.Sender { return o.Sender(connection) })
		}
	}
	pool.OnChange(encrypted.Changed)
	recorder := events.Recorder{EventRecorder: mgr.GetEventRecorder("konnector")}
	bindings := &apiservicebinding.Reconciler{
		Client: mgr.GetClient(),
		Live:   mgr.GetAPIReader(),
		Mapper: mgr.GetRESTMapper(),
		Pool:   pool,

		Rewrites: budget.Budget{Most: apiservicebinding.MaxRewrites, Every: apiservicebinding.RewriteEvery},
		Now:      o.Now,
		Recorder: recorder,
	}
	bindings.Claims = &claim.Controllers{
		Config:   mgr.GetConfig(),
		Cached:   mgr.GetCache(),
		Live:     mgr.GetAPIReader(),
		Client:   mgr.GetClient(),
		Recorder: recorder,
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

		UnknownSigner: encrypted.UnknownSigner,
	}
	credentials := &renewal.Reconciler{
		Client: mgr.GetClient(), Namespace: o.Namespace, InUse: connections.InUse, Guard: elected.Guard, Now: o.Now,
	}
	heartbeats := &heartbeat.Reconciler{
		Client: mgr.GetClient(), InUse: connections.InUse, Guard: elected.Guard, GoneAfter: o.Lease.Duration, Now: o.Now,
		Changed: func(connection string) {
			if r := pool.Get(connection); r != nil {
				r.StandingChanged()
			}
		},
	}
	connections.Standing = heartbeats.Standing
	for what, err := range map[string]error{
		"keys":               encrypted.AddToManager(mgr),
		"heartbeats":         heartbeats.AddToManager(mgr),
		"credentials":        credentials.AddToManager(mgr),
		"repositories":       mgr.Add(pool),
		"claims":             mgr.Add(bindings.Claims),
		"connections":        connections.AddToManager(mgr),
		"bindings":           bindings.AddToManager(mgr),
		"readyz, repository": mgr.AddReadyzCheck("repositories", repositoriesReached(pool)),
	} {
		if err != nil {
			return fmt.Errorf("set up %s: %w", what, err)
		}
	}
	return elected.Explain(mgr.Start(ctx))
}

func manager(ctx context.Context, o Options) (ctrl.Manager, *lease.Lease, error) {
	// Shorter than a pod has, so that the Lease is given back though something hangs.
	grace := 20 * time.Second
	return o.Manager(ctx, o.Config, Name, ctrl.Options{
		GracefulShutdownTimeout: &grace,
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(),
			ByObject: map[client.Object]cache.ByObject{
				&corev1.Secret{}: {Namespaces: map[string]cache.Config{o.Namespace: {}}},
				&apiextensionsv1.CustomResourceDefinition{}: {Label: labels.SelectorFromSet(labels.Set{
					v1alpha1.ManagedByLabel: v1alpha1.ManagedByKonnector,
				})},
			},
		},
	})
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

// setNewest sets a value, and again where there is a newer one by then: of several who do so at
// once, the one that has read it first may set it last.
func setNewest[T interface{ Equal(other T) bool }](set func(T), newest func() T) {
	for now := newest(); ; {
		set(now)
		was := now
		if now = newest(); now.Equal(was) {
			return
		}
	}
}
