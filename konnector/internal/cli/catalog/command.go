package catalog

import (
	"context"

	"github.com/spf13/cobra"

	"gitbind.dev/konnector/internal/cli/command"
)

// Command is `kubectl gitbind catalog`.
func Command(env command.Env) *cobra.Command {
	var in Input
	c := command.New(env, &in.Call, &cobra.Command{
		Use:   "catalog [SEARCH]",
		Short: "List the APIs that you may bind",
		Long: `List the APIs that the control plane offers and that you may bind, and which of
them are bound in this cluster. With SEARCH only those that have this text in their
name, group, kind, API or description.

As JSON and YAML it is {"items": [...]}, each with name, displayName, group, description,
kind, api (group, resource, version), bound (the names of your clusters that have it) and
boundHere.`,
		Example: `  # What the control plane of this cluster offers
  kubectl gitbind catalog

  # What is there for PostgreSQL, with kinds and APIs
  kubectl gitbind catalog postgresql -o wide

  # What another one offers, before connecting to it
  kubectl gitbind catalog --url https://gitbind.example.com`,
		Args: command.Args(0, 1, "give one text to search for: put several words into quotes"),
	})
	c.Argument(&in.Search)
	c.Backend(&in.Connection, &in.BackendURL)
	c.Output(&in.Format)
	c.SignInFlags()
	return c.Run(command.Cluster|command.SignIn, func(ctx context.Context) error { return Do(ctx, in) })
}
