// Package app is the backend's command: flags, and the wiring of all its parts.
// It decides nothing that a part could decide.
package app

import (
	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"

	"gitbind.dev/gitbridge/program"
	"gitbind.dev/gitbridge/version"
)

// NewCommand is the command "backend". It runs until its context ends.
func NewCommand() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:     "backend",
		Version: version.String(),
		Short:   "gitbind's service on the control plane",
		Long: `The backend signs people in, connects their clusters, grants them APIs, keeps
one Git repository for each cluster, and tells agents when a branch has moved.

It needs a control plane with gitbind's CRDs and the ClusterRole
gitbind-backend, an OIDC issuer, the git program (2.39 or newer), and a
directory that outlives it.`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			log, err := o.SetLog()
			if err != nil {
				return err
			}
			return run(ctrl.LoggerInto(cmd.Context(), log), *o, program.Slog(log))
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}
