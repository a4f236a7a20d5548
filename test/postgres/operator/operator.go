// Package operator serves the kinds of anynines' a8s operators with real PostgreSQL
// servers of this machine: instances, users with credentials, backups and restores.
//
// It is for tests and demonstrations, where it stands in the place of operators that
// need nodes, disks and an object store. It has no part in gitbind and knows nothing of
// it. What it cannot do it does not pretend: an instance has the version that the machine
// has, whichever is asked for; there are no Services, so that credentials name host and
// port besides; volumes are folders whose size is looked at now and then; and no
// standby ever takes the first server's place.
package operator

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	backup "gitbind.dev/test/postgres/api/backup/v1beta3"
	postgresql "gitbind.dev/test/postgres/api/postgresql/v1beta3"
	servicebinding "gitbind.dev/test/postgres/api/servicebinding/v1beta3"
	postgres "gitbind.dev/test/postgres/server"
)

// Options say where it works.
type Options struct {
	// Config leads to a cluster with the kinds of the folder crds.
	Config *rest.Config
	// Dir holds data, logs and backups, and is found again after a restart.
	Dir string
	// HealthListen is where /readyz answers; nowhere when it is empty.
	HealthListen string
	// Namespaces are those that are served; all when there are none.
	Namespaces []string
}

const (
	finalizer = "postgres.test.gitbind.dev/data"
	// inParallel lets one instance be served while another is slow to start.
	inParallel = 8
	// lookInterval is how often a server that says nothing is asked whether it still
	// answers, and a volume how full it is.
	lookInterval = 5 * time.Second
	// troubleInterval is how soon what went wrong is tried again.
	troubleInterval = 2 * time.Second
)

// Scheme has the kinds and Kubernetes' own.
func Scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, postgresql.AddToScheme, servicebinding.AddToScheme, backup.AddToScheme,
	} {
		if err := add(s); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// AwaitKinds waits until the API server serves the kinds, which may be a moment after
// their definitions were applied. Clients that were made before may not find them.
func AwaitKinds(ctx context.Context, c *rest.Config) error {
	httpClient, err := rest.HTTPClientFor(c)
	if err != nil {
		return err
	}
	var missing error
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		var mapper meta.RESTMapper
		if mapper, missing = apiutil.NewDynamicRESTMapper(c, httpClient); missing != nil {
			return false, nil
		}
		for _, kind := range []schema.GroupVersionKind{
			postgresql.GroupVersion.WithKind("Postgresql"), servicebinding.GroupVersion.WithKind("ServiceBinding"),
			backup.GroupVersion.WithKind("Backup"), backup.GroupVersion.WithKind("Restore"),
		} {
			if _, missing = mapper.RESTMapping(kind.GroupKind(), kind.Version); missing != nil {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("find the kinds of test/postgres/crds: %w", cmp.Or(missing, err))
	}
	return nil
}

// Run works until ctx is done. Then it stops the servers, and their data stay.
func Run(ctx context.Context, o Options) error {
	scheme, err := Scheme()
	if err != nil {
		return err
	}
	machine, err := postgres.Open(o.Dir)
	if err != nil {
		return err
	}
	defer machine.Close()
	namespaces := map[string]cache.Config{}
	for _, name := range o.Namespaces {
		namespaces[name] = cache.Config{}
	}
	if err := AwaitKinds(ctx, o.Config); err != nil {
		return err
	}
	again := true // Tests run several beside each other.
	mgr, err := manager.New(o.Config, manager.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: "0"}, HealthProbeBindAddress: probe(o.HealthListen),
		Cache:      cache.Options{DefaultNamespaces: namespaces},
		Controller: config.Controller{SkipNameValidation: &again, MaxConcurrentReconciles: inParallel},
	})
	if err != nil {
		return err
	}
	if err := mgr.AddReadyzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	if err := addControllers(mgr, machine, filepath.Join(o.Dir, "backups")); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

func probe(listen string) string {
	if listen == "" {
		return "0"
	}
	return listen
}

func addControllers(mgr manager.Manager, machine *postgres.Machine, backups string) error {
	base := base{Client: mgr.GetClient(), live: mgr.GetAPIReader(), machine: machine}
	ended := make(chan event.GenericEvent, 1024)
	// What we write into a status is no reason to look again.
	changed := builder.WithPredicates(predicate.GenerationChangedPredicate{})
	if err := builder.ControllerManagedBy(mgr).Named("postgresql").
		For(&postgresql.Postgresql{}, changed).Owns(&corev1.Secret{}).
		WatchesRawSource(source.Channel(ended, &handler.EnqueueRequestForObject{})).
		Complete(&instances{base, ended}); err != nil {
		return fmt.Errorf("set up instances: %w", err)
	}
	if err := builder.ControllerManagedBy(mgr).Named("servicebinding").
		For(&servicebinding.ServiceBinding{}, changed).Owns(&corev1.Secret{}).
		Watches(&postgresql.Postgresql{}, handler.EnqueueRequestsFromMapFunc(base.bindingsOf)).
		Complete(&bindings{base}); err != nil {
		return fmt.Errorf("set up bindings: %w", err)
	}
	if err := builder.ControllerManagedBy(mgr).Named("backup").
		For(&backup.Backup{}, changed).Complete(&backupReconciler{base, backups}); err != nil {
		return fmt.Errorf("set up backups: %w", err)
	}
	if err := builder.ControllerManagedBy(mgr).Named("restore").
		For(&backup.Restore{}, changed).Complete(&restores{base: base, dir: backups}); err != nil {
		return fmt.Errorf("set up restores: %w", err)
	}
	return nil
}

// base is what the controllers have in common.
type base struct {
	client.Client
	// live reads what must not be old: Secrets.
	live    client.Reader
	machine *postgres.Machine
}

// instance is a running instance, and its servers.
func (b *base) instance(ctx context.Context, key client.ObjectKey) (*postgresql.Postgresql, *postgres.Instance, error) {
	pg := &postgresql.Postgresql{}
	if err := b.Get(ctx, key, pg); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil, nil, fmt.Errorf("there is no Postgresql %s in namespace %s", key.Name, key.Namespace)
		}
		return nil, nil, err
	}
	i := b.machine.Lookup(string(pg.UID))
	if i == nil || !pg.DeletionTimestamp.IsZero() || pg.Status.ClusterStatus != postgresql.Running {
		return nil, nil, fmt.Errorf("instance %s: %w", key.Name, postgres.ErrNotRunning)
	}
	return pg, i, nil
}
