package app

import (
	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"

	"gitbind.dev/gitbridge/lease"
	"gitbind.dev/gitbridge/program"
	"gitbind.dev/gitbridge/version"
)

// Command is the program's command line.
func Command() *cobra.Command {
	o := Options{Options: program.Options{HealthListen: ":8081", Lease: lease.Default()}}
	o.Lease.Name = Name
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
			log, err := o.SetLog()
			if err != nil {
				return err
			}
			if o.Config, err = o.RESTConfig(); err != nil {
				return err
			}
			o.Lease.Namespace = o.Namespace
			return Run(ctrl.LoggerInto(cmd.Context(), log), o)
		},
	}
	f := cmd.Flags()
	o.AddFlags(f)
	f.StringVar(&o.Namespace, "namespace", "gitbind-system", "namespace of the Secrets that Connections refer to")
	f.IntVar(&o.Workers, "workers", 256, "how many claims of one API are worked on at once")
	o.AddLeaseFlags(f)
	return cmd
}
