package catalog

import (
	"github.com/spf13/cobra"

	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/output"
	"gitbind.dev/konnector/internal/cli/session"
	"gitbind.dev/konnector/internal/cli/signin"
	"gitbind.dev/konnector/internal/cli/usage"
)

type options struct {
	connection, url, format string
	signin                  signin.Flags
}

// Command is `kubectl gitbind catalog`.
func Command(cluster appcluster.Opener, signIn signin.Opener) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "catalog",
		Short: "List the APIs that you may bind",
		Long: `List the APIs that the control plane offers and that you may bind, and which of
them are bound in this cluster.`,
		Example: `  # What the control plane of this cluster offers
  kubectl gitbind catalog

  # What another one offers, before connecting to it
  kubectl gitbind catalog --url https://gitbind.example.com`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			in, err := o.input(cmd)
			if err != nil {
				return err
			}
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
	fs.StringVarP(&o.format, "output", "o", "", "one of json, yaml, name")
	o.signin.AddTo(fs)
	return cmd
}

func (o *options) input(cmd *cobra.Command) (in Input, err error) {
	in = Input{Connection: o.connection, Out: cmd.OutOrStdout()}
	if err := usage.Exclusive(cmd.Flags(), "connection", "url"); err != nil {
		return in, err
	}
	if in.Format, err = output.ParseFormat(o.format); err != nil {
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
