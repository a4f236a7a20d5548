package completion

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"

	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/clone"
	"gitbind.dev/konnector/internal/cli/output"
	"gitbind.dev/konnector/internal/cli/signin"
)

// most is how many revisions are offered: who wants an older one asks log.
const most = 20

// ClaimAndRevision offers a claim first, and then the commits that changed it.
func ClaimAndRevision(cluster appcluster.Opener, signIn signin.Opener) Func {
	claims := Claims(cluster, 1)
	return func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		if len(args) != 1 {
			return claims(cmd, args, toComplete)
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), patience)
		defer cancel()
		c, err := cluster()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		s, err := signIn()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		// They have an order, which is no alphabetical one.
		return revisions(ctx, clone.Access{Cluster: c, SignIn: s, Silent: true}, args[0]), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

func revisions(ctx context.Context, a clone.Access, claim string) []string {
	name, err := a.Cluster.Name(claim)
	if err != nil {
		return nil
	}
	repo, err := a.OfBinding(ctx, name.Key.Binding)
	if err != nil {
		return nil
	}
	history, err := repo.Log(ctx, name.Key.Path(), most)
	if err != nil {
		return nil
	}
	var out []string
	for _, c := range history {
		if c.New == "" {
			continue // there is no going back to a removal
		}
		ago := duration.HumanDuration(max(time.Since(c.Time), 0))
		out = append(out, fmt.Sprintf("%s\t%s ago, %s: %s", c.Hash[:10], ago, output.Line(c.Author.Name), output.Line(c.Subject())))
	}
	return out
}
