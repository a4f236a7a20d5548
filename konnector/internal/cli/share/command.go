package share

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/konnector/internal/cli/command"
	"gitbind.dev/konnector/internal/cli/usage"
)

// Command is `kubectl gitbind share`.
func Command(env command.Env) *cobra.Command {
	var in Input
	c := command.New(env, &in.Call, &cobra.Command{
		Use:   "share [ROLE]",
		Short: "Let others see, propose, approve or make changes in Git",
		Long: `Let other users and groups of the control plane's issuer at the repository of a
cluster that is yours, or list who they are. ROLE is one of

  view      read the repository, as a whole: Git knows no smaller right to read
  propose   also push branches changes/<binding>/<namespace>/<name>
  approve   also approve what others propose, and so change services
  write     also push to main

With --binding and -n, they propose, approve and write no other claims than those. The
control plane asks its own RBAC at each of their requests: "kubectl gitbind unshare"
takes a role back at once.

As JSON and YAML the list is {"items": [...]}, each with id, role, user or group, and as
far as it is limited binding, offer and namespace.`,
		Example: `  # Who gets at it?
  kubectl gitbind share

  # A colleague proposes changes of the databases of one namespace
  kubectl gitbind share propose --user bob@example.com --binding postgresqlinstances -n team-a

  # A group changes whatever is there
  kubectl gitbind share write --group platform`,
		Args:              command.Args(0, 1, "name one role: kubectl gitbind share view|propose|approve|write"),
		ValidArgsFunction: roles,
	})
	role := in.flags(c)
	c.Output(&in.Format)
	c.Check = func() error {
		in.read(c, role)
		named := len(in.Users)+len(in.Groups) > 0
		switch {
		case *role == "" && (named || in.Binding != "" || in.Namespace != ""):
			return usage.Errorf("name the role: kubectl gitbind share view|propose|approve|write")
		case *role == "":
			return nil
		case !slices.Contains(restapi.RepositoryRoles(), in.Role):
			return usage.Errorf("%q is no role: it is one of view, propose, approve and write", *role)
		case !named:
			return usage.Errorf("say with whom: --user NAME or --group NAME")
		case in.Role == restapi.RepositoryView && (in.Binding != "" || in.Namespace != ""):
			return usage.Errorf("a repository is read as a whole: view takes no --binding and no --namespace")
		}
		return nil
	}
	return c.Run(command.Cluster|command.SignIn, func(ctx context.Context) error { return Do(ctx, in) })
}

// UndoCommand is `kubectl gitbind unshare`.
func UndoCommand(env command.Env) *cobra.Command {
	var in Input
	c := command.New(env, &in.Call, &cobra.Command{
		Use:   "unshare [ROLE]",
		Short: "Take back what was shared with others",
		Long: `Take back what users and groups were given with "kubectl gitbind share": all of it,
or just a role, a binding's or a namespace's. It counts from their next request on.
What they have read they have read, and what they have changed stays.`,
		Example: `  # All that somebody has
  kubectl gitbind unshare --user bob@example.com

  # One role on one namespace
  kubectl gitbind unshare write --group platform -n team-a`,
		Args:              command.Args(0, 1, "name one role, or none: kubectl gitbind unshare [view|propose|approve|write] --user NAME"),
		ValidArgsFunction: roles,
	})
	role := in.flags(c)
	c.Check = func() error {
		in.read(c, role)
		switch {
		case *role != "" && !slices.Contains(restapi.RepositoryRoles(), in.Role):
			return usage.Errorf("%q is no role: it is one of view, propose, approve and write", *role)
		case len(in.Users)+len(in.Groups) == 0:
			return usage.Errorf("say from whom: --user NAME or --group NAME")
		}
		return nil
	}
	return c.Run(command.Cluster|command.SignIn, func(ctx context.Context) error { return Undo(ctx, in) })
}

// flags adds those of both commands; the role is where the argument goes.
func (in *Input) flags(c *command.Command) (role *string) {
	role = new(string)
	c.Argument(role)
	fs := c.Flags()
	fs.StringSliceVar(&in.Users, "user", nil, "a user, as the issuer names them; may be repeated")
	fs.StringSliceVar(&in.Groups, "group", nil, "a group, as the issuer names it; may be repeated")
	fs.StringVar(&in.Binding, "binding", "", "only the claims of this binding: its name, its plural or the offer's")
	fs.BoolVarP(&in.Yes, "yes", "y", false, "do not ask whether to go on")
	c.BackendCluster(&in.Connection, &in.BackendURL, &in.ClusterRef)
	c.SignInFlags()
	return role
}

// read takes the namespace from kubectl's own flag, and not from the kubeconfig: without
// it, all namespaces are meant.
func (in *Input) read(c *command.Command, role *string) {
	in.Role = restapi.RepositoryRole(*role)
	if f := c.Flag("namespace"); f != nil && f.Changed {
		in.Namespace = f.Value.String()
	}
}

func roles(_ *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	var names []string
	for _, role := range restapi.RepositoryRoles() {
		if len(args) == 0 && strings.HasPrefix(string(role), toComplete) {
			names = append(names, string(role))
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
