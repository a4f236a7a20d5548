// Package completion offers the shell the names that a command can take: claims,
// bindings, connections. What cannot be read in a moment is not offered, and
// nobody is asked to sign in.
package completion

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/command"
)

// Func is what cobra asks for arguments.
type Func = func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective)

// shellTimeout is how long a person waits for their shell.
const shellTimeout = 3 * time.Second

// Claims offers the claims of the person's namespace, as KIND/NAME, for the first
// most arguments (any number with 0).
func Claims(env command.Env, most int) Func {
	return names(env, most, func(ctx context.Context, c *appcluster.Cluster) []string {
		return ClaimsWhere(ctx, c, func(*unstructured.Unstructured) (string, bool) { return "", true })
	})
}

// Undecided offers the claims of the person's namespace for which there is
// something to decide.
func Undecided(env command.Env) Func {
	return names(env, 1, func(ctx context.Context, c *appcluster.Cluster) []string {
		return ClaimsWhere(ctx, c, func(u *unstructured.Unstructured) (string, bool) {
			h := appcluster.StatusOf(u).Hold
			if h == nil || len(h.Choices) == 0 {
				return "", false
			}
			return h.Reason, true
		})
	})
}

// Bindings offers the bound APIs.
func Bindings(env command.Env, most int) Func {
	return names(env, most, bindings)
}

// Connections offers the cluster's connections.
func Connections(env command.Env, most int) Func {
	return names(env, most, func(ctx context.Context, c *appcluster.Cluster) []string {
		all, _ := c.Connections(ctx)
		var out []string
		for i := range all {
			out = append(out, all[i].Name)
		}
		return out
	})
}

// names offers those names that were not given yet.
func names(env command.Env, most int, list func(context.Context, *appcluster.Cluster) []string) Func {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if most > 0 && len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		c, err := env.Cluster()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), shellTimeout)
		defer cancel()
		return without(list(ctx, c), args), cobra.ShellCompDirectiveNoFileComp
	}
}

// without leaves out what was given already. Behind a tab, a choice says what it
// is.
func without(choices, given []string) []string {
	return slices.DeleteFunc(choices, func(choice string) bool {
		name, _, _ := strings.Cut(choice, "\t")
		return slices.Contains(given, name)
	})
}

// ConnectionFlags completes --connection of all commands that have it.
func ConnectionFlags(cmd *cobra.Command, env command.Env) {
	if cmd.LocalNonPersistentFlags().Lookup("connection") != nil {
		_ = cmd.RegisterFlagCompletionFunc("connection", Connections(env, 0))
	}
	for _, sub := range cmd.Commands() {
		ConnectionFlags(sub, env)
	}
}

func bindings(ctx context.Context, c *appcluster.Cluster) []string {
	all, _ := c.Bindings(ctx)
	var out []string
	for _, b := range all {
		out = append(out, b.Name)
	}
	return out
}

// ClaimsWhere lists claims of the person's namespace that a function wants, with
// what it says about each.
func ClaimsWhere(ctx context.Context, c *appcluster.Cluster, wanted func(*unstructured.Unstructured) (about string, ok bool)) []string {
	var out []string
	for _, binding := range bindings(ctx, c) {
		claims, _ := c.Claims(ctx, binding, client.InNamespace(c.Namespace))
		for i := range claims {
			about, ok := wanted(&claims[i])
			if !ok {
				continue
			}
			name := binding + "/" + claims[i].GetName()
			if about != "" {
				name += "\t" + about
			}
			out = append(out, name)
		}
	}
	return out
}
