// Package app reads gitbridge's flags and puts its parts together.
package app

import (
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/internal/statusbranch"
	"gitbind.dev/gitbridge/lease"
	"gitbind.dev/gitbridge/version"
)

// Options are the flags.
type Options struct {
	Kubeconfig string
	BackendURL string
	// CAFile holds certificates in PEM that are trusted for backend and Git host
	// beside the system's; "" for none.
	CAFile        string
	HealthListen  string
	MetricsListen string
	PprofListen   string
	Workers       int
	// StatusHistory is after how many commits a branch status begins anew.
	StatusHistory int64
	Verbose       bool
	// Lease is how one of several bridges comes to work. The zero value is for
	// one that is alone.
	Lease lease.Options
	// Now is the clock; time.Now when it is nil.
	Now func() time.Time
}

// NewCommand returns the command gitbridge.
func NewCommand() *cobra.Command {
	o := Options{HealthListen: "127.0.0.1:8082", MetricsListen: "0", Workers: 128, StatusHistory: statusbranch.History, Lease: lease.Default()}
	o.Lease.Namespace, o.Lease.Name = v1alpha1.SystemNamespace, "gitbind-gitbridge"
	cmd := &cobra.Command{
		Use:     "gitbridge",
		Version: version.String(),
		Short:   "Bring claims from Git to the control plane, and their status back",
		Long: `gitbridge follows the Git repository of each ClusterBinding on the control
plane. Each claim file on main is applied as the tenant's ServiceAccount; what
becomes of it is committed to the branch status.

It runs next to Crossplane, as the ServiceAccount gitbind-gitbridge, and keeps
nothing of its own: it may be stopped and started again at any time. Of several,
one works: the one that holds the Lease. One that loses it ends.`,
		Example: `  gitbridge --backend-url https://gitbind.example.org
  gitbridge --kubeconfig control.yaml --backend-url http://127.0.0.1:8080 --health-listen 127.0.0.1:8082`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			o.setLog()
			config, err := o.config()
			if err != nil {
				return err
			}
			return Run(cmd.Context(), config, o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Kubeconfig, "kubeconfig", "", "kubeconfig of the control plane (default: $KUBECONFIG, or the pod's own ServiceAccount)")
	flags.StringVar(&o.BackendURL, "backend-url", "", "address of the backend, which tells when a repository changed; without it repositories are looked at once a minute")
	flags.StringVar(&o.CAFile, "ca-file", "", "file of certificates in PEM that are trusted for backend and Git host, beside the system's")
	flags.StringVar(&o.HealthListen, "health-listen", o.HealthListen, "address for /healthz and /readyz; 0 for none")
	flags.StringVar(&o.MetricsListen, "metrics-listen", o.MetricsListen, "address for /metrics; 0 for none")
	flags.StringVar(&o.PprofListen, "pprof-listen", "0", "address for /debug/pprof; 0 for none")
	flags.IntVar(&o.Workers, "workers", o.Workers, "how many claims of one app cluster are worked on at once")
	flags.Int64Var(&o.StatusHistory, "status-history", o.StatusHistory, "after about how many commits the history of a branch status is cut")
	flags.BoolVar(&o.Lease.Elect, "leader-elect", o.Lease.Elect, "work only while the Lease gitbind-gitbridge is held, so that several may run")
	flags.StringVar(&o.Lease.Identity, "lease-identity", "", "who holds the Lease, such as the pod's name; no two processes may share it (default: a random one)")
	flags.DurationVar(&o.Lease.Duration, "lease-duration", o.Lease.Duration, "after how long without a renewal another may take the Lease")
	flags.DurationVar(&o.Lease.Renew, "lease-renew", o.Lease.Renew, "after how long without a renewal the holder ends")
	flags.DurationVar(&o.Lease.Retry, "lease-retry", o.Lease.Retry, "how long to wait between two tries to renew or to take the Lease")
	flags.BoolVarP(&o.Verbose, "verbose", "v", false, "log what is tried again, too")
	return cmd
}

func (o *Options) validate() error {
	if o.Workers < 1 {
		return fmt.Errorf("--workers is %d: at least 1", o.Workers)
	}
	if o.StatusHistory < 1 {
		return fmt.Errorf("--status-history is %d: at least 1", o.StatusHistory)
	}
	if o.BackendURL == "" {
		return nil
	}
	if u, err := url.Parse(o.BackendURL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("--backend-url is %q: want the backend's address, such as https://gitbind.example.org", o.BackendURL)
	}
	return nil
}

func (o *Options) config() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.Kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("load kubeconfig: %w", err)
	}
	return config, nil
}

func (o *Options) setLog() {
	level := slog.LevelInfo
	if o.Verbose {
		level = slog.LevelDebug
	}
	handler := slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})
	slog.SetDefault(slog.New(handler))
	ctrl.SetLogger(logr.FromSlogHandler(handler))
	klog.SetSlogLogger(slog.New(handler))
}
