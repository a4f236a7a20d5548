package unbind

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/konnector/internal/cli/command"
	"gitbind.dev/konnector/internal/cli/completion"
)

// Command is `kubectl gitbind unbind`.
func Command(env command.Env) *cobra.Command {
	var in Input
	c := command.New(env, &in.Call, &cobra.Command{
		Use:   "unbind NAME...",
		Short: "Take an API of the control plane out of this cluster",
		Long: `Take an API that was bound out of this cluster again: its definition, the rights
on it, and the grant in the control plane. NAME is the API's, <plural>.<group>, its
plural, or the offer's.

An API that has claims is not unbound before you say what becomes of them:

  --claims=orphan   they go from this cluster; their files on main and their
                    services stay, and come back when the API is bound again
  --claims=delete   their services are deleted, with what is in them

What goes is shown before you are asked. The konnector does the work: if this
command is interrupted, it goes on, and the same command watches it again.`,
		Example: `  # What would go?
  kubectl gitbind unbind postgresql --dry-run

  # Let the services live on without this cluster
  kubectl gitbind unbind postgresql --claims=orphan

  # In a script, with all of its services
  kubectl gitbind unbind postgresqlinstances.anynines.com --claims=delete --yes`,
		Args:              command.Args(1, -1, "name what to unbind: kubectl gitbind unbind NAME; kubectl gitbind get lists what is bound"),
		ValidArgsFunction: completion.Bindings(env, 0),
	})
	c.Arguments(&in.Names)
	fs := c.Flags()
	claims := fs.String("claims", "", "what becomes of the API's claims: orphan or delete")
	c.Values("claims", "orphan", "delete")
	fs.BoolVar(&in.DryRun, "dry-run", false, "show what would go, and change nothing")
	fs.BoolVarP(&in.Yes, "yes", "y", false, "do not ask whether to go on")
	fs.DurationVar(&in.Timeout, "timeout", 5*time.Minute, "how long to wait for that, for each API")
	c.NoWait(&in.Timeout, "do not wait until it is done")
	c.Check = func() error {
		in.Claims = map[string]v1alpha1.DeletionPolicy{"orphan": v1alpha1.DeletionOrphan, "delete": v1alpha1.DeletionDelete}[*claims]
		return nil
	}
	return c.Run(command.Cluster, func(ctx context.Context) error { return Do(ctx, in) })
}
