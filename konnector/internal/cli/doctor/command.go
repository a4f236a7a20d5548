package doctor

import (
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/output"
	"gitbind.dev/konnector/internal/cli/terminal"
)

// Command is `kubectl gitbind doctor`.
func Command(cluster appcluster.Opener) *cobra.Command {
	var format output.Flag
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look at each link of the chain, and say what to do",
		Long: `Look at each link from this cluster to the control plane and back: the cluster and
what is installed in it, the konnector, its rights and its credential, the way to the
Git host, the repository, the bridge's answers, the events, and each bound API.

Each gets a line: ok, warn, fail, or skipped where it hangs on one that failed or you
may not see it; below it stands what to do. What concerns the network is as this
machine sees it, which may be another way than the konnector's. Nothing is changed.
The exit code is 1 when a link fails.`,
		Example: `  # The cluster of the current context
  kubectl gitbind doctor

  # What does not hold, in a script
  kubectl gitbind doctor -o json | jq '.items[] | select(.state == "fail")'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f, err := format.Format()
			if err != nil {
				return err
			}
			return Do(cmd.Context(), Input{
				Cluster: cluster, HTTP: &http.Client{Timeout: patience}, Now: time.Now,
				Format: f, Terminal: terminal.Open(cmd.InOrStdin(), cmd.OutOrStdout()),
			})
		},
	}
	format.AddTo(cmd, output.Table, output.JSON, output.YAML)
	return cmd
}
