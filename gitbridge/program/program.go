// Package program is what konnector, gitbridge and backend set up alike: flags, the
// log, the client, leader election, probes, the manager and what its cache keeps. It
// knows nothing of what they do, and starts nothing.
package program

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/fluxcd/pkg/runtime/logger"
	"github.com/fluxcd/pkg/runtime/probes"
	"github.com/spf13/pflag"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/lease"
)

// Options are the flags that the programs have in common.
type Options struct {
	Kubeconfig string
	// HealthListen, MetricsListen and PprofListen are addresses; "" or "0" for none.
	HealthListen, MetricsListen, PprofListen string
	Log                                      logger.Options
	Verbose                                  bool
	// Lease is how one of several processes comes to work. The zero value is for
	// one that is alone.
	Lease lease.Options
}

// AddFlags adds the flags that all programs have. HealthListen is its own default.
func (o *Options) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig, "kubeconfig of the cluster to work in (default: $KUBECONFIG, or the pod's own ServiceAccount)")
	f.StringVar(&o.HealthListen, "health-listen", o.HealthListen, "address of /healthz and /readyz; 0 for none")
	f.StringVar(&o.MetricsListen, "metrics-listen", "0", "address of /metrics; 0 for none")
	f.StringVar(&o.PprofListen, "pprof-listen", "0", "address of /debug/pprof; 0 for none")
	f.BoolVarP(&o.Verbose, "verbose", "v", false, "the same as --log-level=debug")
	o.Log.BindFlags(f)
}

// AddLeaseFlags adds the flags of leader election. What Lease holds is the
// default. (fluxcd's have defaults of their own: nobody is elected, and a Lease is
// left for 35 seconds where ours is for 15.)
func (o *Options) AddLeaseFlags(f *pflag.FlagSet) {
	l := &o.Lease
	f.BoolVar(&l.Elect, "leader-elect", l.Elect, "work only while the Lease "+l.Name+" is held, so that several may run")
	f.StringVar(&l.Identity, "lease-identity", l.Identity, "who holds the Lease, such as the pod's name; no two processes may share it (default: a random one)")
	f.DurationVar(&l.Duration, "lease-duration", l.Duration, "after how long without a renewal another may take the Lease")
	f.DurationVar(&l.Renew, "lease-renew", l.Renew, "after how long without a renewal the holder ends")
	f.DurationVar(&l.Retry, "lease-retry", l.Retry, "how long to wait between two tries to renew or to take the Lease")
}

// RESTConfig is how to reach the cluster.
func (o Options) RESTConfig() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.Kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("load kubeconfig: %w", err)
	}
	return config, nil
}

// Manager makes a manager that logs to ctx's logger and calls itself name before
// the API server. It knows the kinds that are used here, is ready when its caches
// are filled, and writes nothing while the Lease is not held. In more is what only
// the one program wants.
func (o Options) Manager(ctx context.Context, config *rest.Config, name string, more ctrl.Options) (ctrl.Manager, *lease.Lease, error) {
	config = rest.CopyConfig(config)
	config.UserAgent = name
	// The API server's own priority and fairness is the limit.
	config.QPS = -1
	elected, err := lease.New(config, o.Lease)
	if err != nil {
		return nil, nil, err
	}
	config.Wrap(elected.Guard)
	elected.Configure(&more)
	more.Scheme = runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(more.Scheme); err != nil {
			return nil, nil, err
		}
	}
	no, yes := false, true
	// With that of v0.24.1, a worker may wait for ever with its lock held when the
	// process is told to end.
	more.Controller.UsePriorityQueue = &no
	// Each app cluster has controllers of its own.
	more.Controller.SkipNameValidation = &yes
	more.Logger = ctrl.LoggerFrom(ctx)
	more.HealthProbeBindAddress, more.PprofBindAddress = o.HealthListen, o.PprofListen
	more.Metrics = server.Options{BindAddress: o.MetricsListen}
	if o.MetricsListen == "" {
		more.Metrics.BindAddress = "0"
	}
	mgr, err := ctrl.NewManager(config, more)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	probes.SetupChecks(mgr, more.Logger)
	return mgr, elected, errors.Join(elected.Tell(mgr), tellVersion(mgr, name), mgr.AddReadyzCheck("caches", func(r *http.Request) error {
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		if !mgr.GetCache().WaitForCacheSync(ctx) {
			return errors.New("the cluster's objects are not known yet")
		}
		return nil
	}))
}
