package completion

import (
	"fmt"

	"github.com/spf13/cobra"
)

// script is what kubectl looks for on the PATH when it completes its plugins.
const script = `#!/bin/sh
# kubectl asks this for what can follow "kubectl gitbind".
exec kubectl-gitbind __complete "$@"
`

// AddKubectl adds to cobra's own command, which prints completions of this program
// for a shell, the one for kubectl's.
func AddKubectl(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	cmd, _, err := root.Find([]string{"completion"})
	if err != nil {
		return
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "kubectl",
		Short: "Print the program by which kubectl completes this plugin",
		Long: `Print the program by which kubectl completes "kubectl gitbind", in each shell in
which kubectl's own completion works. It belongs on the PATH, executable, as
kubectl_complete-gitbind.`,
		Example: `  kubectl gitbind completion kubectl > ~/.local/bin/kubectl_complete-gitbind
  chmod +x ~/.local/bin/kubectl_complete-gitbind`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), script)
			return err
		},
	})
}
