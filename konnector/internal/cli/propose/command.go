package propose

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/konnector/internal/cli/command"
	"gitbind.dev/konnector/internal/cli/completion"
	"gitbind.dev/konnector/internal/cli/usage"
)

// Command is `kubectl gitbind propose`.
func Command(env command.Env) *cobra.Command {
	var in Input
	c := command.New(env, &in.Call, &cobra.Command{
		Use:   "propose (-f FILE | --remove KIND/NAME) -m MESSAGE",
		Short: "Propose to order, change or cancel claims, for somebody else to approve",
		Long: `Propose to order, change or cancel claims: what kubectl apply and kubectl delete would
do at once is committed to a branch changes/…, and waits there until somebody approves it
(kubectl gitbind review, or the web page). Nothing changes in this cluster before that.

All that is named becomes one change. Its branch is called after the first claim, unless
--branch says otherwise; while it waits, the same command with the same branch adds to it.
A claim is written as a whole, as kubectl replace would, and in the order of fields that
the konnector uses.

A removal that comes with a new claim of the same kind looks like a file that was renamed:
its service stays, held, when the change is merged, until somebody decides (kubectl gitbind
resolve). Better propose the removal on its own.

It needs git on the PATH, the bound APIs in this cluster, and the right to propose where
the cluster is somebody else's (kubectl gitbind share propose).`,
		Example: `  # Order or change what a manifest says
  kubectl gitbind propose -f orders.yaml -m "Give orders a larger plan"

  # Cancel two that belong together, as one change
  kubectl gitbind propose --remove servicebinding/old --remove postgresqlinstance/old -n team-a -m "Nobody uses it"`,
	})
	fs := c.Flags()
	fs.StringSliceVarP(&in.Files, "filename", "f", nil, "files, or folders, with manifests of claims; - is standard input")
	fs.StringSliceVar(&in.Remove, "remove", nil, "claims to cancel, as KIND/NAME: their services are deleted when it is approved")
	fs.StringVarP(&in.Message, "message", "m", "", "what it is for, for those who approve it")
	fs.StringVar(&in.Branch, "branch", "", "the name of the branch; changes/ before it may be left out")
	_ = c.RegisterFlagCompletionFunc("remove", completion.Claims(env, 0))
	c.SignInFlags()
	c.Check = func() error {
		in.Message = strings.TrimSpace(in.Message)
		switch {
		case len(in.Files)+len(in.Remove) == 0:
			return usage.Errorf("name what to propose: -f FILE, or --remove KIND/NAME")
		case in.Message == "":
			return usage.Errorf("say what it is for: -m MESSAGE")
		}
		if in.Branch != "" {
			in.Branch = contract.ChangesPrefix + strings.TrimPrefix(in.Branch, contract.ChangesPrefix)
		}
		return nil
	}
	return c.Run(command.Cluster|command.SignIn, func(ctx context.Context) error { return Do(ctx, in) })
}
