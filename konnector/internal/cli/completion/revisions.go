package completion

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"

	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/clone"
	"gitbind.dev/konnector/internal/cli/command"
	"gitbind.dev/konnector/internal/cli/controlplane"
	"gitbind.dev/konnector/internal/cli/output"
	"gitbind.dev/konnector/internal/cli/signin"
)

// most is how many revisions are offered: who wants an older one asks log.
const most = 20

// ClaimAndRevision offers a claim first, and then the commits that changed it.
func ClaimAndRevision(env command.Env) Func {
	claims := Claims(env, 1)
	return func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		if len(args) != 1 {
			return claims(cmd, args, toComplete)
		}
		commits := names(env, 0, func(ctx context.Context, c *appcluster.Cluster) []string { return revisions(ctx, env, c, args[0]) })
		out, directive := commits(cmd, args, toComplete)
		// They have an order, which is no alphabetical one.
		return out, directive | cobra.ShellCompDirectiveKeepOrder
	}
}

func revisions(ctx context.Context, env command.Env, c *appcluster.Cluster, claim string) []string {
	s, err := env.SignIn()
	if err != nil {
		return nil
	}
	name, err := c.Name(claim)
	if err != nil {
		return nil
	}
	repo, err := clone.OfBinding(ctx, controlplane.Access{Cluster: c, SignIn: s, How: signin.How{Silent: true}}, name.Key.Binding)
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
