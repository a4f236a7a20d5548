package catalog

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/output"
	"gitbind.dev/konnector/internal/cli/session"
	"gitbind.dev/konnector/internal/cli/signin"
	"gitbind.dev/konnector/internal/cli/terminal"
	"gitbind.dev/konnector/internal/cli/usage"
)

type options struct {
	connection, url string
	output          output.Flag
	signin          signin.Flags
}

// Command is `kubectl gitbind catalog`.
func Command(cluster appcluster.Opener, signIn signin.Opener) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "catalog [SEARCH]",
		Short: "List the APIs that you may bind",
		Long: `List the APIs that the control plane offers and that you may bind, and which of
them are bound in this cluster. With SEARCH only those that have this text in their
name, group, kind, API or description.`,
		Example: `  # What the control plane of this cluster offers
  kubectl gitbind catalog

  # What is there for PostgreSQL, with kinds and APIs
  kubectl gitbind catalog postgresql -o wide

  # What another one offers, before connecting to it
  kubectl gitbind catalog --url https://gitbind.example.com`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return errors.New("give one text to search for: put several words into quotes")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			in, err := o.input(cmd)
			if err != nil {
				return err
			}
			in.Search = strings.Join(args, "")
			if in.BackendURL == "" {
				if in.Cluster, err = cluster(); err != nil {
					return err
				}
			}
			if in.SignIn, err = signIn(); err != nil {
				return err
			}
			return Do(cmd.Context(), in)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&o.connection, "connection", "", "name of the Connection, if the cluster has several")
	fs.StringVar(&o.url, "url", "", "the backend's URL, in the place of a Connection's")
	o.output.AddTo(cmd)
	o.signin.AddTo(fs)
	return cmd
}

func (o *options) input(cmd *cobra.Command) (in Input, err error) {
	in = Input{Connection: o.connection, Terminal: terminal.Open(cmd.InOrStdin(), cmd.OutOrStdout())}
	if err := usage.Exclusive(cmd.Flags(), "connection", "url"); err != nil {
		return in, err
	}
	if in.Format, err = o.output.Format(); err != nil {
		return in, err
	}
	if o.url != "" {
		if in.BackendURL, err = session.BackendURL(o.url); err != nil {
			return in, err
		}
	}
	in.How, err = o.signin.How(cmd.InOrStdin())
	return in, err
}
