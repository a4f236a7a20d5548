package app

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/encryption"
	"gitbind.dev/gitbridge/internal/claimcache"
	"gitbind.dev/gitbridge/internal/controller/claim"
	"gitbind.dev/gitbridge/internal/controller/clusterbinding"
	"gitbind.dev/gitbridge/internal/controller/request"
	"gitbind.dev/gitbridge/internal/decision"
	"gitbind.dev/gitbridge/internal/metrics"
	"gitbind.dev/gitbridge/internal/session"
	"gitbind.dev/gitbridge/internal/tenant"
	"gitbind.dev/gitbridge/store"
)

// claimsFactory makes the claim controller of each followed cluster.
type claimsFactory struct {
	config *rest.Config
	// client reads from a cache; server does not.
	client  client.Client
	server  client.Reader
	apis    claim.APIs
	objects *claimcache.Objects
	log     logr.Logger
	workers int
	// lookLimit is that of all clusters' claim.Controllers.
	lookLimit *semaphore.Weighted
	// maxNamespaces is how many namespaces claims of one cluster may lie in.
	maxNamespaces int
	metrics       *metrics.Bridge
	now           func() time.Time
	// signing signs what travels to app clusters, and escrow are whom all Secrets are
	// encrypted to beside their app cluster.
	signing *signing
	escrow  []string
	// usage publishes how much of a quota is used.
	usage func(ctx context.Context, namespace, binding string, u *v1alpha1.QuotaUsage) error
	// counting is that of all clusters' claim.Controllers.
	counting chan struct{}
}

// maxCounting is how many APIs' claims are listed at the same time to count them.
const maxCounting = 4

func (f claimsFactory) of(cluster tenant.Cluster) (clusterbinding.Claims, error) {
	as := rest.CopyConfig(f.config)
	as.Impersonate = rest.ImpersonationConfig{UserName: cluster.User()}
	as.WarningHandlerWithContext = rest.NoWarnings{}
	c := &claim.Controller{APIs: f.apis, Objects: f.objects, Log: f.log, Workers: f.workers, MaxNamespaces: f.maxNamespaces, Metrics: f.metrics.Of(cluster.ID), Now: f.now}
	c.Counting, c.LookLimit = f.counting, f.lookLimit
	c.Usage = func(ctx context.Context, binding string, u *v1alpha1.QuotaUsage) error {
		return f.usage(ctx, cluster.Namespace, binding, u)
	}
	var err error
	if c.Bridge, c.BridgeObjects, err = clients(f.config); err != nil {
		return nil, err
	}
	if c.Tenant, c.TenantObjects, err = clients(as); err != nil {
		return nil, err
	}
	secrets, err := metadata.NewForConfig(as)
	if err != nil {
		return nil, err
	}
	c.Secrets.Metadata, c.Secrets.Secrets, c.Secrets.Signer = secrets, c.Tenant, f.signing.Signer
	c.Secrets.Recipients = func(ctx context.Context) ([]string, error) { return f.recipients(ctx, cluster) }
	c.Inputs.Tenant = c.TenantObjects
	c.Inputs.Opener = func(ctx context.Context) (*encryption.Opener, error) { return f.opener(ctx, cluster) }
	requests := &request.Controller{Client: f.client, Server: f.server, Log: f.log}
	requests.HasObjects = func(ctx context.Context, binding string) (bool, bool, error) {
		return f.objects.HasAny(ctx, cluster.ID, binding)
	}
	return &claims{
		factory: f, cluster: cluster, controller: c, queue: claim.NewQueue(),
		requests: requests, asked: request.NewQueue(), begun: make(chan struct{}),
	}, nil
}

// recipients are whom a cluster's Secrets are encrypted to; none before it has
// registered a key.
func (f claimsFactory) recipients(ctx context.Context, cluster tenant.Cluster) ([]string, error) {
	keys, err := f.keys(ctx, cluster)
	if err != nil || len(keys.Recipients) == 0 {
		return nil, err
	}
	return slices.Concat(keys.Recipients, f.escrow), nil
}

// keys are those that a cluster has registered.
func (f claimsFactory) keys(ctx context.Context, cluster tenant.Cluster) (v1alpha1.EncryptionKeys, error) {
	var b v1alpha1.ClusterBinding
	if err := f.client.Get(ctx, client.ObjectKey{Name: cluster.ID}, &b); err != nil {
		return v1alpha1.EncryptionKeys{}, fmt.Errorf("get ClusterBinding: %w", err)
	}
	return b.Keys(), nil
}

// opener opens what a cluster sends; nil before it has registered a key.
func (f claimsFactory) opener(ctx context.Context, cluster tenant.Cluster) (*encryption.Opener, error) {
	keys, err := f.keys(ctx, cluster)
	if err != nil || len(keys.SigningKeys) == 0 {
		return nil, err
	}
	identities, err := f.signing.Identities(ctx)
	if err != nil {
		return nil, err
	}
	return &encryption.Opener{Cluster: cluster.ID, Keys: keys.SigningKeys, Identities: identities}, nil
}

// watchEarly begins to watch what the cluster may use, as the objects take as long to
// come as Git does, and returns when they are known. What cannot be watched is told when
// it is asked for.
func (f claimsFactory) watchEarly(ctx context.Context, cluster tenant.Cluster) {
	var exports v1alpha1.APIServiceExportList
	if err := f.client.List(ctx, &exports, client.InNamespace(cluster.Namespace)); err != nil {
		return
	}
	var group errgroup.Group
	for _, e := range exports.Items {
		if api, err := f.apis.Resolve(ctx, cluster.Namespace, e.Name); err == nil && api.Access == decision.Granted {
			group.Go(func() error { return f.objects.Watch(ctx, api.Kind, api.Binding, cluster.ID, nil) })
		}
	}
	_ = group.Wait()
}

func clients(config *rest.Config) (kubernetes.Interface, dynamic.Interface, error) {
	http, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, nil, err
	}
	typed, err := kubernetes.NewForConfigAndClient(config, http)
	if err != nil {
		return nil, nil, err
	}
	objects, err := dynamic.NewForConfigAndClient(config, http)
	return typed, objects, err
}

// claims are the controllers of one cluster's claims and requests, with their
// queues.
type claims struct {
	factory    claimsFactory
	cluster    tenant.Cluster
	controller *claim.Controller
	queue      *claim.Queue

	requests *request.Controller
	asked    *request.Queue
	// begun is closed when the controllers work.
	begun chan struct{}
}

func (c *claims) Enqueue(path string, urgent bool) {
	if _, ok := contract.ParseRequestPath(path); ok {
		c.asked.Enqueue(path, urgent)
		return
	}
	c.queue.Enqueue(path, urgent)
}

func (c *claims) OnControlPlane(binding string) map[string]store.Hash {
	return c.factory.objects.PathsOf(c.cluster.ID, binding)
}

func (c *claims) CountQuota(binding string) { c.queue.CountQuota(binding) }

func (c *claims) DryRun(ctx context.Context, p session.Proposed) session.Trial {
	select {
	case <-c.begun:
		return c.controller.DryRun(ctx, p)
	case <-ctx.Done():
		return session.Trial{Untried: session.TookTooLong, Transient: true}
	}
}

func (c *claims) Run(ctx context.Context, s *session.Session) error {
	c.controller.Begin(s)
	c.requests.Session = s
	close(c.begun)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.requests.Run(ctx, c.asked) })
	group.Go(func() error {
		// All claims need what is known of objects: no more of them wait than must.
		c.factory.watchEarly(ctx, c.cluster)
		s.ObjectsKnown()
		return c.controller.Run(ctx, c.queue)
	})
	return group.Wait()
}
