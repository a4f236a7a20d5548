// Package app reads gitbridge's flags and puts its parts together.
package app

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/encryption"
	"gitbind.dev/gitbridge/internal/statusbranch"
	"gitbind.dev/gitbridge/lease"
	"gitbind.dev/gitbridge/program"
	"gitbind.dev/gitbridge/version"
)

// Options are the flags.
type Options struct {
	program.Options
	BackendURL string
	// CAFiles hold certificates in PEM that are trusted for backend and Git host
	// beside the system's.
	CAFiles []string
	// Shard is the one whose app clusters are followed; "" for the default one.
	Shard   string
	Workers int
	// MaxNamespaces is in how many namespaces claims of one app cluster may lie; 0
	// means any number.
	MaxNamespaces int
	// StatusHistory is after how many commits a branch status begins a new history.
	StatusHistory int64
	// EscrowRecipients are age's public keys to which all Secrets are encrypted beside
	// those of their app cluster.
	EscrowRecipients []string
	// SignCommits says that each commit of a branch status is signed.
	SignCommits bool
	// Now is the clock; time.Now when it is nil.
	Now func() time.Time
}

// NewCommand returns the command gitbridge.
func NewCommand() *cobra.Command {
	o := Options{Shard: v1alpha1.DefaultShard, Workers: 128, MaxNamespaces: 200, StatusHistory: statusbranch.History, Options: program.Options{HealthListen: "127.0.0.1:8082", Lease: lease.Default()}}
	o.Lease.Namespace, o.Lease.Name = v1alpha1.SystemNamespace, v1alpha1.ShardLease(v1alpha1.DefaultShard)
	cmd := &cobra.Command{
		Use:     "gitbridge",
		Version: version.String(),
		Short:   "Bring claims from Git to the control plane, and their status back",
		Long: `gitbridge follows the Git repository of each ClusterBinding on the control
plane. Each claim file on main is applied as the tenant's ServiceAccount; what
becomes of it is committed to the branch status.

It runs next to Crossplane, as the ServiceAccount gitbind-gitbridge, and keeps
nothing of its own: it may be stopped and started again at any time. Of several,
one works: the one that holds the Lease. One that loses it ends.

Where there are too many app clusters for one, there are shards: --shard NAME follows
the ClusterBindings with the label gitbind.dev/shard=NAME, and has a Lease of its own.`,
		Example: `  gitbridge --backend-url https://gitbind.example.org
  gitbridge --kubeconfig control.yaml --backend-url http://127.0.0.1:8080 --health-listen 127.0.0.1:8082`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			log, err := o.SetLog()
			if err != nil {
				return err
			}
			config, err := o.RESTConfig()
			if err != nil {
				return err
			}
			return Run(ctrl.LoggerInto(cmd.Context(), log), config, o)
		},
	}
	flags := cmd.Flags()
	o.AddFlags(flags)
	flags.StringVar(&o.BackendURL, "backend-url", "", "address of the backend, which tells when a repository changed; without it repositories are looked at once a minute")
	flags.StringArrayVar(&o.CAFiles, "ca-file", nil, "file of certificates in PEM that are trusted for backend and Git host, beside the system's; may be given several times")
	flags.StringVar(&o.Shard, "shard", o.Shard, "follow the ClusterBindings whose label "+v1alpha1.LabelShard+" is this one; those without it are of the shard "+v1alpha1.DefaultShard)
	flags.IntVar(&o.Workers, "workers", o.Workers, "how many claims of one app cluster are worked on at once, and how many of all are looked at")
	flags.IntVar(&o.MaxNamespaces, "max-namespaces", o.MaxNamespaces, "in how many namespaces claims of one app cluster may lie; 0: any number")
	flags.Int64Var(&o.StatusHistory, "status-history", o.StatusHistory, "after about how many commits the history of a branch status is cut")
	flags.StringSliceVar(&o.EscrowRecipients, "escrow-recipient", nil, "age public key (age1...) to which Secrets are encrypted beside those of their app cluster; may be given several times")
	flags.BoolVar(&o.SignCommits, "sign-commits", false, "sign each commit with the SSH key of the bridge, whose public half each Connection has in status.encryption.signingKeys")
	o.AddLeaseFlags(flags)
	return cmd
}

func (o *Options) validate() error {
	if !v1alpha1.ValidShard(o.Shard) {
		return fmt.Errorf("--shard is %q: want lower-case letters, digits and hyphens, at most 32", o.Shard)
	}
	if o.Shard != v1alpha1.DefaultShard && !o.Lease.Elect {
		return errors.New("--shard needs --leader-elect: other shards tell by its Lease whether it may still write")
	}
	if o.Workers < 1 {
		return fmt.Errorf("--workers is %d: at least 1", o.Workers)
	}
	if o.MaxNamespaces < 0 {
		return fmt.Errorf("--max-namespaces is %d: at least 0, which is any number", o.MaxNamespaces)
	}
	if o.StatusHistory < 1 {
		return fmt.Errorf("--status-history is %d: at least 1", o.StatusHistory)
	}
	for _, r := range o.EscrowRecipients {
		if !encryption.IsRecipient(r) {
			return fmt.Errorf("--escrow-recipient is %q: want a public key as age-keygen -y prints it, age1 and its letters", r)
		}
	}
	if o.BackendURL == "" {
		return nil
	}
	if u, err := url.Parse(o.BackendURL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("--backend-url is %q: want the backend's address, such as https://gitbind.example.org", o.BackendURL)
	}
	return nil
}
