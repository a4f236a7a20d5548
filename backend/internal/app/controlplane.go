package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"gitbind.dev/backend/internal/controller/apiserviceexport"
	"gitbind.dev/backend/internal/controller/apiserviceexporttemplate"
	"gitbind.dev/backend/internal/controller/clusterbinding"
	"gitbind.dev/backend/internal/controller/heartbeat"
	"gitbind.dev/backend/internal/controller/unattended"
	"gitbind.dev/backend/internal/review"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/backoff"
	"gitbind.dev/gitbridge/lease"
	"gitbind.dev/gitbridge/program"
)

// controlPlane is the backend's manager, and two caches beside it: of Secrets
// only those two names may be read, so each has a cache of its own.
type controlPlane struct {
	manager.Manager
	konnectorSecrets, bridgeSecrets cache.Cache
	discovery                       *discovery.DiscoveryClient
	shards                          *unattended.Shards
	// noDryRuns is why there are no DryRuns, once that is known.
	noDryRuns atomic.Pointer[error]
}

// forever is for what waits until the API server answers: the process is to go
// on by itself, however long that takes.
const forever = 10 * 365 * 24 * time.Hour

func newControlPlane(ctx context.Context, o program.Options) (*controlPlane, error) {
	cfg, err := o.RESTConfig()
	if err != nil {
		return nil, err
	}
	of, err := labels.NewRequirement(v1alpha1.LabelCluster, selection.Exists, nil)
	if err != nil {
		return nil, err
	}
	grace := 3 * time.Second
	// health answers, of more than the manager knows.
	o.HealthListen = "0"
	mgr, _, err := o.Manager(ctx, cfg, "gitbind-backend", ctrl.Options{
		MapperProvider:          func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return kinds(), nil },
		GracefulShutdownTimeout: &grace,
		Controller:              ctrlconfig.Controller{CacheSyncTimeout: forever},
		Client:                  client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
		Cache:                   cached(labels.NewSelector().Add(*of)),
	})
	if err != nil {
		return nil, err
	}
	c := &controlPlane{Manager: mgr}
	if c.shards, err = unattended.New(c.GetClient(), &lease.Observer{Server: c.GetAPIReader(), Now: time.Now}, ctrlmetrics.Registry); err != nil {
		return nil, err
	}
	if c.konnectorSecrets, err = c.secretCache(v1alpha1.KonnectorSecret); err != nil {
		return nil, err
	}
	if c.bridgeSecrets, err = c.secretCache(v1alpha1.BridgeSecret); err != nil {
		return nil, err
	}
	c.discovery, err = discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	return c, err
}

// cached is what the cache keeps of objects: of Namespaces, ServiceAccounts and RoleBindings those
// of clusters, and of what is large only what is read.
func cached(clusters labels.Selector) cache.Options {
	ofCluster := cache.ByObject{Label: clusters}
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Namespace{}:                         ofCluster,
			&corev1.ServiceAccount{}:                    ofCluster,
			&rbacv1.RoleBinding{}:                       ofCluster,
			&v1alpha1.APIServiceExport{}:                {Transform: program.SlimExport},
			&v1alpha1.DryRun{}:                          {Transform: slimDryRun},
			&apiextensionsv1.CustomResourceDefinition{}: {Transform: apiserviceexporttemplate.StripSchemas},
		},
	}
}

// kinds are all that the backend touches. They are known here, so that it starts
// while the API server is away and cannot be asked.
func kinds() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	for _, gvk := range []schema.GroupVersionKind{
		corev1.SchemeGroupVersion.WithKind("Namespace"),
		rbacv1.SchemeGroupVersion.WithKind("ClusterRole"),
		rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"),
		apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"),
		authorizationv1.SchemeGroupVersion.WithKind("SubjectAccessReview"),
		v1alpha1.GroupVersion.WithKind("ClusterBinding"),
		v1alpha1.GroupVersion.WithKind("APIServiceExportTemplate"),
	} {
		m.Add(gvk, meta.RESTScopeRoot)
	}
	for _, gvk := range []schema.GroupVersionKind{
		corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
		corev1.SchemeGroupVersion.WithKind("Secret"),
		rbacv1.SchemeGroupVersion.WithKind("Role"),
		rbacv1.SchemeGroupVersion.WithKind("RoleBinding"),
		coordinationv1.SchemeGroupVersion.WithKind("Lease"),
		v1alpha1.GroupVersion.WithKind("APIServiceExport"),
		v1alpha1.GroupVersion.WithKind("DryRun"),
	} {
		m.Add(gvk, meta.RESTScopeNamespace)
	}
	return m
}

// secretCache holds the Secrets of one name, in all namespaces.
func (c *controlPlane) secretCache(name string) (cache.Cache, error) {
	secrets, err := cache.New(c.GetConfig(), cache.Options{
		HTTPClient:       c.GetHTTPClient(),
		Scheme:           c.GetScheme(),
		Mapper:           c.GetRESTMapper(),
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Secret{}: {Field: fields.OneTermEqualSelector("metadata.name", name)},
		},
	})
	if err != nil {
		return nil, err
	}
	return secrets, c.Add(secrets)
}

// addControllers adds what works on the control plane's objects. heard is when a
// cluster's konnector was here last, and copied whether two copies of it are live.
func (c *controlPlane) addControllers(git *repositories, heard func(cluster string) time.Time, copied func(cluster string, said bool) bool) error {
	heartbeats, err := heartbeat.New(c.GetClient(), c.konnectorSecrets, heard, copied, ctrlmetrics.Registry)
	if err != nil {
		return err
	}
	if err := c.Add(heartbeats); err != nil {
		return err
	}
	if err := c.Add(c.shards); err != nil {
		return err
	}
	const workers = 8
	bindings := &clusterbinding.Reconciler{Client: c.GetClient(), Live: c.GetAPIReader(), Host: git.Host, Accounts: git.accounts, Move: git.move, Now: time.Now}
	options := backoff.Controller(workers)
	if git.remote != nil {
		options.RateLimiter = backoff.RateLimiter[ctrl.Request](backoff.MaxHostWait)
	}
	if err := bindings.AddToManager(c, c.bridgeSecrets, c.konnectorSecrets, options); err != nil {
		return err
	}
	if err := (&apiserviceexport.Reconciler{Client: c.GetClient(), Live: c.GetAPIReader(), Now: time.Now}).AddToManager(c, backoff.Controller(workers)); err != nil {
		return err
	}
	return (&apiserviceexporttemplate.Reconciler{Client: c.GetClient(), Now: time.Now}).AddToManager(c, backoff.Controller(workers))
}

// lookAtCopies has the copy of each repository that a host elsewhere has looked at now and then.
func (c *controlPlane) lookAtCopies(git *repositories, log *slog.Logger) error {
	if git.remote == nil {
		return nil
	}
	return c.Add(manager.RunnableFunc(func(ctx context.Context) error {
		git.lookAtAll(ctx, func(ctx context.Context) (clusters []string) {
			var all v1alpha1.ClusterBindingList
			if err := c.GetClient().List(ctx, &all); err != nil {
				log.WarnContext(ctx, "Clusters cannot be listed", "error", err)
			}
			for _, cb := range all.Items {
				if there := cb.Status.Repository; there != nil && there.URL == git.remote.URL(cb.Name) {
					clusters = append(clusters, cb.Name)
				}
			}
			return clusters
		})
		return nil
	}))
}

// watchQuotas tells of each API of which a cluster uses another part of its quota.
func (c *controlPlane) watchQuotas(counted func(cluster, binding string)) error {
	return c.Add(manager.RunnableFunc(func(ctx context.Context) error {
		return handle(ctx, c.GetCache(), &v1alpha1.APIServiceExport{}, toolscache.ResourceEventHandlerFuncs{UpdateFunc: func(before, after any) {
			was, is := before.(*v1alpha1.APIServiceExport), after.(*v1alpha1.APIServiceExport)
			if id, ok := strings.CutPrefix(is.Namespace, v1alpha1.TenantNamespace("")); ok && !equality.Semantic.DeepEqual(was.Status.Quota, is.Status.Quota) {
				counted(id, is.Name)
			}
		}})
	}))
}

// watchDryRuns tells of each cluster of whose changes the bridge has tried one, and of those with
// one that was asked for before. It begins when the control plane has their definition, which is
// newer than others: without it, all works but that.
func (c *controlPlane) watchDryRuns(tried func(cluster string), log *slog.Logger) error {
	tell := func(d *v1alpha1.DryRun) {
		if id, ok := strings.CutPrefix(d.Namespace, v1alpha1.TenantNamespace("")); ok {
			tried(id)
		}
	}
	return c.Add(manager.RunnableFunc(func(ctx context.Context) error {
		if !c.awaitDryRuns(ctx, log) {
			return nil
		}
		err := handle(ctx, c.GetCache(), &v1alpha1.DryRun{}, toolscache.ResourceEventHandlerDetailedFuncs{
			AddFunc: func(object any, before bool) {
				// Others are those that were asked for just now.
				if d := object.(*v1alpha1.DryRun); before || d.IsAnswered() {
					tell(d)
				}
			},
			UpdateFunc: func(before, after any) {
				if was, is := before.(*v1alpha1.DryRun), after.(*v1alpha1.DryRun); is.Status.ObservedGeneration != was.Status.ObservedGeneration {
					tell(is)
				}
			},
		})
		if err != nil || ctx.Err() != nil {
			return err
		}
		// From here on reading one does not wait.
		if _, err := c.GetCache().GetInformer(ctx, &v1alpha1.DryRun{}); err != nil {
			return nil // the process ends
		}
		c.noDryRuns.Store(new(error(nil)))
		return nil
	}))
}

// awaitDryRuns waits until the control plane has their definition, and reports false when ctx has
// ended.
func (c *controlPlane) awaitDryRuns(ctx context.Context, log *slog.Logger) bool {
	const every = 10 * time.Second
	told := false
	return wait.PollUntilContextCancel(ctx, every, true, func(context.Context) (bool, error) {
		has, err := program.HasKind(c.discovery, v1alpha1.GroupVersion.WithKind("DryRun"))
		if err != nil || has {
			return has, nil // or the API server is away: try again
		}
		c.noDryRuns.Store(&review.ErrNoDryRuns)
		if !told {
			told = true
			log.Warn("Proposed changes are not tried: the control plane has no definition of DryRuns. Apply it, and restart gitbridge")
		}
		return false, nil
	}) == nil
}

// errNotAsked says that it is not known yet what the control plane has.
var errNotAsked = errors.New("the control plane has not been asked yet for the definition of DryRuns")

// canTry says why no DryRun can be asked for.
func (c *controlPlane) canTry() error {
	if why := c.noDryRuns.Load(); why != nil {
		return *why
	}
	return errNotAsked
}

// slimDryRun leaves out what the backend has written itself.
func slimDryRun(object any) (any, error) {
	if d, ok := object.(*v1alpha1.DryRun); ok {
		d.ManagedFields, d.Spec.Claims = nil, nil
	}
	return object, nil
}

// run runs caches and controllers until ctx ends. It does not wait long for them
// then: while the API server is away, client-go's caches sleep through the end,
// and there is nothing in them to save.
func (c *controlPlane) run(ctx context.Context, log *slog.Logger) error {
	err := c.Start(ctx)
	if err != nil && ctx.Err() != nil {
		log.Info("Ended before all caches and controllers had", "error", err)
		err = nil
	}
	return err
}

// synced tells whether the backend has seen the control plane's objects.
func (c *controlPlane) synced(ctx context.Context) error {
	for _, all := range []cache.Cache{c.GetCache(), c.konnectorSecrets, c.bridgeSecrets} {
		if !all.WaitForCacheSync(ctx) {
			return fmt.Errorf("the control plane's objects have not been read yet")
		}
	}
	return nil
}

// reachable tells whether the API server answers.
func (c *controlPlane) reachable(ctx context.Context) error {
	return c.discovery.RESTClient().Get().AbsPath("/version").Do(ctx).Error()
}
