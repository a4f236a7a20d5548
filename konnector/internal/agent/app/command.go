package app

import (
	"fmt"
	"log/slog"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"gitbind.dev/gitbridge/lease"
	"gitbind.dev/gitbridge/version"
)

// Command is the program's command line.
func Command() *cobra.Command {
	o := Options{Lease: lease.Default()}
	var kubeconfig string
	var verbose bool
	cmd := &cobra.Command{
		Use:     "konnector",
		Version: version.String(),
		Short:   "Keep the claims of this cluster in step with Git",
		Long: `konnector is gitbind's agent in an app cluster.

It follows the Git repository of each Connection, installs the APIs that are
bound by APIServiceBindings, commits the claims that people make here, and
brings here what others commit. It holds no credential for the control plane.

Of several, one works: the one that holds the Lease. One that loses it ends.

"kubectl gitbind connect" installs what it needs in the cluster.`,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			level := slog.LevelInfo
			if verbose {
				level = slog.LevelDebug
			}
			log := logr.FromSlogHandler(slog.NewJSONHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: level}))
			ctrl.SetLogger(log)
			klog.SetLogger(log)
			rules := clientcmd.NewDefaultClientConfigLoadingRules()
			rules.ExplicitPath = kubeconfig
			config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
			if err != nil {
				return fmt.Errorf("load kubeconfig: %w", err)
			}
			o.Config = config
			o.Lease.Namespace, o.Lease.Name = o.Namespace, "gitbind-konnector"
			return Run(ctrl.LoggerInto(cmd.Context(), log), o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of the app cluster (default: $KUBECONFIG, or the pod's own ServiceAccount)")
	f.StringVar(&o.HealthListen, "health-listen", ":8081", "address of /healthz and /readyz; 0 for none")
	f.StringVar(&o.MetricsListen, "metrics-listen", "0", "address of /metrics; 0 for none")
	f.StringVar(&o.PprofListen, "pprof-listen", "0", "address of /debug/pprof; 0 for none")
	f.StringVar(&o.Namespace, "namespace", "gitbind-system", "namespace of the Secrets that Connections refer to")
	f.IntVar(&o.Workers, "workers", 256, "how many claims of one API are worked on at once")
	f.BoolVar(&o.Lease.Elect, "leader-elect", o.Lease.Elect, "work only while the Lease gitbind-konnector is held, so that several may run")
	f.StringVar(&o.Lease.Identity, "lease-identity", "", "who holds the Lease, such as the pod's name; no two processes may share it (default: a random one)")
	f.DurationVar(&o.Lease.Duration, "lease-duration", o.Lease.Duration, "after how long without a renewal another may take the Lease")
	f.DurationVar(&o.Lease.Renew, "lease-renew", o.Lease.Renew, "after how long without a renewal the holder ends")
	f.DurationVar(&o.Lease.Retry, "lease-retry", o.Lease.Retry, "how long to wait between two tries to renew or to take the Lease")
	f.BoolVarP(&verbose, "verbose", "v", false, "log details")
	return cmd
}
