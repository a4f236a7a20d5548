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

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/konnector/internal/cli/appcluster"
)

// Func is what cobra asks for arguments.
type Func = func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective)

// patience is how long a person waits for their shell.
const patience = 3 * time.Second

// Claims offers the claims of the person's namespace, as KIND/NAME, for the first
// most arguments (any number with 0).
func Claims(cluster appcluster.Opener, most int) Func {
	return names(cluster, most, func(ctx context.Context, c *appcluster.Cluster) []string {
		return ClaimsWhere(ctx, c, func(*unstructured.Unstructured) (string, bool) { return "", true })
	})
}

// Undecided offers the claims of the person's namespace for which there is
// something to decide.
func Undecided(cluster appcluster.Opener) Func {
	return names(cluster, 1, func(ctx context.Context, c *appcluster.Cluster) []string {
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
func Bindings(cluster appcluster.Opener, most int) Func {
	return names(cluster, most, bindings)
}

// Connections offers the cluster's connections.
func Connections(cluster appcluster.Opener, most int) Func {
	return names(cluster, most, func(ctx context.Context, c *appcluster.Cluster) []string {
		all, _ := c.Connections(ctx)
		var out []string
		for i := range all {
			out = append(out, all[i].Name)
		}
		return out
	})
}

// names offers those names that were not given yet.
func names(cluster appcluster.Opener, most int, list func(context.Context, *appcluster.Cluster) []string) Func {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if most > 0 && len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		c, err := cluster()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), patience)
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
func ConnectionFlags(cmd *cobra.Command, cluster appcluster.Opener) {
	if cmd.LocalNonPersistentFlags().Lookup("connection") != nil {
		_ = cmd.RegisterFlagCompletionFunc("connection", Connections(cluster, 0))
	}
	for _, sub := range cmd.Commands() {
		ConnectionFlags(sub, cluster)
	}
}

func bindings(ctx context.Context, c *appcluster.Cluster) []string {
	var list v1alpha1.APIServiceBindingList
	if c.List(ctx, &list) != nil {
		return nil
	}
	var out []string
	for _, b := range list.Items {
		out = append(out, b.Name)
	}
	return out
}

// ClaimsWhere lists claims of the person's namespace that a function wants, with
// what it says about each.
func ClaimsWhere(ctx context.Context, c *appcluster.Cluster, wanted func(*unstructured.Unstructured) (about string, ok bool)) []string {
	var out []string
	for _, binding := range bindings(ctx, c) {
		kind, err := c.KindOf(binding)
		if err != nil {
			continue
		}
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if c.List(ctx, list, client.InNamespace(c.Namespace)) != nil {
			continue
		}
		for i := range list.Items {
			about, ok := wanted(&list.Items[i])
			if !ok {
				continue
			}
			name := binding + "/" + list.Items[i].GetName()
			if about != "" {
				name += "\t" + about
			}
			out = append(out, name)
		}
	}
	return out
}
