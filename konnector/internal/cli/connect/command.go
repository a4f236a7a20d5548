package connect

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/install"
	"gitbind.dev/konnector/internal/cli/output"
	"gitbind.dev/konnector/internal/cli/session"
	"gitbind.dev/konnector/internal/cli/signin"
	"gitbind.dev/konnector/internal/cli/terminal"
	"gitbind.dev/konnector/internal/cli/usage"
)

type options struct {
	name, clusterName string
	install           install.Options
	signin            signin.Flags
	reclaim           string
	force             bool
	noWait            bool
	caFile            string
	dryRun, yes       bool
	output            output.Flag
	timeout           time.Duration
}

// Command is `kubectl gitbind connect`.
func Command(cluster appcluster.Opener, signIn signin.Opener) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "connect URL",
		Short: "Connect this cluster to a control plane",
		Long: `Connect this cluster to the control plane whose backend is at URL.

You sign in with your browser (or with --device). Then gitbind's kinds, its
rights, the attribution policy and the konnector are installed, and the
konnector gets a Git repository and the credential for it. For that you need the
rights of a cluster administrator in this cluster, and none in the control plane.

Run it again to bring the installation up to date or to replace the credential.

A pipeline signs in with an ID token of its own (workload identity), if the control
plane trusts its issuer: from a file with --id-token-file, from the environment
variables GITBIND_ID_TOKEN or GITBIND_ID_TOKEN_FILE, or with --id-token-stdin.

With -o yaml nothing is applied here: what would be is printed, for a GitOps tool.
For a cluster that is not connected yet the control plane makes its repository and
credential, and the Secret is printed with it; that goes to a file or a program, and
never to a terminal.

A cluster that was lost and built anew takes its old place with --reclaim: it
gets the repository and the services of the lost one, whose credential ends. The
control plane refuses that to everybody but the owner of the lost cluster, and
while its konnector was seen within the last five minutes.`,
		Example: `  # Connect the cluster of the current context
  kubectl gitbind connect https://gitbind.example.com

  # From a machine without a browser, and another cluster
  kubectl gitbind connect https://gitbind.example.com --device --context staging

  # In a pipeline, with a token that the platform has put into a file
  kubectl gitbind connect https://gitbind.example.com --id-token-file /run/token --yes

  # What would that do? It changes nothing
  kubectl gitbind connect https://gitbind.example.com --dry-run

  # For a GitOps tool to apply, the Secret encrypted
  kubectl gitbind connect https://gitbind.example.com -o yaml > gitbind.yaml

  # A control plane whose certificate is of a company's own CA
  kubectl gitbind connect https://gitbind.example.com --ca-file company-ca.pem

  # Put a rebuilt cluster in the place of the one that was called "prod"
  kubectl gitbind connect https://gitbind.example.com --reclaim prod`,
		Args: oneURL,
		RunE: func(cmd *cobra.Command, args []string) error {
			in, err := o.input(cmd, args[0])
			if err != nil {
				return err
			}
			if in.Cluster, err = cluster(); err != nil {
				return err
			}
			if in.SignIn, err = signIn(); err != nil {
				return err
			}
			return Do(cmd.Context(), in)
		},
	}
	o.addFlags(cmd)
	return cmd
}

func oneURL(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return errors.New("give one URL, that of the control plane's backend: kubectl gitbind connect URL")
	}
	return nil
}

func (o *options) addFlags(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&o.name, "name", "", "name of the Connection (default: the URL's host, or \"default\")")
	fs.StringVar(&o.clusterName, "cluster-name", "", "how the control plane's people know this cluster (default: the kubeconfig's context)")
	fs.StringVar(&o.reclaim, "reclaim", "", "take the place of this cluster of yours (its id, or its name), which was lost")
	fs.BoolVar(&o.force, "force", false, "with --reclaim: even if its konnector was seen a moment ago")
	fs.BoolVar(&o.install.NoDeployment, "no-deployment", false, "do not run the konnector in this cluster: it runs elsewhere, with the rights of its ServiceAccount")
	fs.StringVar(&o.install.Image, "image", "", "the konnector's image (default: that of this version)")
	fs.StringVar(&o.caFile, "ca-file", "", "trust the certificates in this PEM file, beside the system's, for backend, issuer and repository")
	fs.BoolVar(&o.dryRun, "dry-run", false, "show what would be done, and change nothing, neither here nor in the control plane")
	fs.BoolVarP(&o.yes, "yes", "y", false, "do not ask whether this is the right cluster")
	o.output.AddTo(cmd, output.Table, output.YAML)
	fs.BoolVar(&o.noWait, "no-wait", false, "do not wait until the konnector has reached the repository")
	fs.DurationVar(&o.timeout, "timeout", 2*time.Minute, "how long to wait for that")
	o.signin.AddTo(fs)
}

func (o *options) input(cmd *cobra.Command, url string) (in Input, err error) {
	in = Input{
		Name: o.name, ClusterName: o.clusterName, Install: o.install, Timeout: o.timeout,
		Reclaim: o.reclaim, Force: o.force, DryRun: o.dryRun, Yes: o.yes,
		Terminal: terminal.Open(cmd.InOrStdin(), cmd.OutOrStdout()), Notes: cmd.ErrOrStderr(),
	}
	if o.force && o.reclaim == "" {
		return in, usage.Errorf("--force is for --reclaim")
	}
	for _, pair := range [][]string{{"no-deployment", "image"}, {"no-wait", "timeout"}, {"reclaim", "cluster-name"}, {"dry-run", "output"}, {"no-wait", "output"}} {
		if err := usage.Exclusive(cmd.Flags(), pair...); err != nil {
			return in, err
		}
	}
	if o.noWait {
		in.Timeout = 0
	}
	if in.Format, err = o.output.Format(); err != nil {
		return in, err
	}
	if f, ok := in.Terminal.Out.(*os.File); in.Format == output.YAML && ok && term.IsTerminal(int(f.Fd())) {
		return in, usage.Errorf("-o yaml prints a credential: not to a terminal, but to a file (> gitbind.yaml) or a program that encrypts it")
	}
	if o.caFile != "" {
		if in.CABundle, err = os.ReadFile(o.caFile); err != nil {
			return in, fmt.Errorf("read --ca-file: %w", err)
		}
	}
	if in.BackendURL, err = session.BackendURL(url); err != nil {
		return in, err
	}
	in.How, err = o.signin.How(cmd.InOrStdin())
	return in, err
}
