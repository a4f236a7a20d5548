package doctor

import (
	"context"
	"net/http"

	"github.com/spf13/cobra"

	"gitbind.dev/konnector/internal/cli/command"
	"gitbind.dev/konnector/internal/cli/output"
)

// Command is `kubectl gitbind doctor`.
func Command(env command.Env) *cobra.Command {
	in := Input{Open: env.Cluster, HTTP: &http.Client{Timeout: linkTimeout}}
	c := command.New(env, &in.Call, &cobra.Command{
		Use:   "doctor",
		Short: "Look at each link of the chain, and say what to do",
		Long: `Look at each link from this cluster to the control plane and back: the cluster and
what is installed in it, the konnector, its rights and its credential, the way to the
Git host, the repository, the bridge's answers, the events, and each bound API.

Each gets a line: ok, warn, fail, or skipped where it hangs on one that failed or you
may not see it; below it stands what to do. What concerns the network is as this
machine sees it, which may be another way than the konnector's. Nothing is changed.
The exit code is 1 when a link fails.

As JSON and YAML it is {"items": [...]}, each with state, link, about, message and do.`,
		Example: `  # The cluster of the current context
  kubectl gitbind doctor

  # What does not hold, in a script
  kubectl gitbind doctor -o json | jq '.items[] | select(.state == "fail")'`,
	})
	c.Output(&in.Format, output.Table, output.JSON, output.YAML)
	// To open the cluster is the first link that is looked at.
	return c.Run(0, func(ctx context.Context) error { return Do(ctx, in) })
}
