package connect

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"gitbind.dev/gitbridge/version"
	"gitbind.dev/konnector/internal/cli/command"
	"gitbind.dev/konnector/internal/cli/output"
	"gitbind.dev/konnector/internal/cli/session"
	"gitbind.dev/konnector/internal/cli/terminal"
	"gitbind.dev/konnector/internal/cli/usage"
)

// Command is `kubectl gitbind connect`.
func Command(env command.Env) *cobra.Command {
	var in Input
	c := command.New(env, &in.Call, &cobra.Command{
		Use:   "connect URL",
		Short: "Connect this cluster to a control plane",
		Long: `Connect this cluster to the control plane whose backend is at URL.

You sign in with your browser (or with --device). Then gitbind's kinds, its
rights, the attribution policy and the konnector are installed, and the
konnector gets a Git repository and the credential for it. For that you need the
rights of a cluster administrator in this cluster, and none in the control plane.

Run it again to bring the installation up to date or to replace the credential. If the
control plane is at another URL now, give that and the Connection's --name.

A pipeline signs in with an ID token of its own (workload identity), if the control
plane trusts its issuer: from a file with --id-token-file, from the environment
variables GITBIND_ID_TOKEN or GITBIND_ID_TOKEN_FILE, or with --id-token-stdin.

With -o yaml nothing is applied here: what would be is printed, for a GitOps tool.
For a cluster that is not connected yet the control plane makes its repository and
credential, and the Secret is printed with it; that goes to a file or a program, and
never to a terminal.

A cluster that was lost and rebuilt takes its old place with --reclaim: it
gets the repository and the services of the lost one, whose credential ends. The
control plane refuses that to everybody but the owner of the lost cluster, and
while its konnector was seen within the last five minutes.

Of two live copies of one cluster, as when an etcd snapshot was started beside it,
--reclaim and its id have this one go on: the other one's credential ends.`,
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

  # Where nodes get images from a mirror only
  kubectl gitbind connect https://gitbind.example.com --image-registry mirror.example.com/gitbind

  # A control plane whose certificate is of a company's own CA
  kubectl gitbind connect https://gitbind.example.com --ca-file company-ca.pem

  # Put a rebuilt cluster in the place of the one that was called "prod"
  kubectl gitbind connect https://gitbind.example.com --reclaim prod`,
		Args: command.Args(1, 1, "give one URL, that of the control plane's backend: kubectl gitbind connect URL"),
	})
	c.Argument(&in.BackendURL)
	fs := c.Flags()
	fs.StringVar(&in.Name, "name", "", "name of the Connection (default: the URL's host, or \"default\")")
	fs.StringVar(&in.ClusterName, "cluster-name", "", "how the control plane's people know this cluster (default: the kubeconfig's context)")
	fs.StringVar(&in.Reclaim, "reclaim", "", "take the place of this cluster of yours (its id, or its name), which was lost")
	fs.BoolVar(&in.Force, "force", false, "with --reclaim: even if its konnector was seen a moment ago")
	fs.BoolVar(&in.Install.NoDeployment, "no-deployment", false, "do not run the konnector in this cluster: it runs elsewhere, with the rights of its ServiceAccount")
	fs.StringVar(&in.Install.Image, "image", "", "the konnector's image (default: that of this version)")
	fs.StringVar(&in.Install.Registry, "image-registry", version.Registry(), "registry that has the image of this version, with its folder: a mirror, for example; an image that runs stays from where it is")
	c.MayBeEmpty = []string{"image-registry"}
	c.CAFile(&in.CABundle, "trust the certificates in this PEM file, beside the system's, for backend, issuer and repository: more than one authority's, one after the other")
	fs.BoolVar(&in.DryRun, "dry-run", false, "show what would be done, and change nothing, neither here nor in the control plane")
	fs.BoolVarP(&in.Yes, "yes", "y", false, "do not ask whether this is the right cluster")
	c.Output(&in.Format, output.Table, output.YAML)
	fs.DurationVar(&in.Timeout, "timeout", 2*time.Minute, "how long to wait for that")
	c.NoWait(&in.Timeout, "do not wait until the konnector has reached the repository and is rolled out")
	c.Excludes("no-deployment", "image", "image-registry")
	c.Excludes("image", "image-registry")
	c.Excludes("reclaim", "cluster-name")
	c.Excludes("dry-run", "output")
	c.Excludes("no-wait", "output")
	c.SignInFlags()
	c.Check = func() (err error) {
		if in.Force && in.Reclaim == "" {
			return usage.Errorf("--force is for --reclaim")
		}
		if in.Format == output.YAML && terminal.IsTerminal(in.Terminal.Out) {
			return usage.Errorf("-o yaml prints a credential: not to a terminal, but to a file (> gitbind.yaml) or a program that encrypts it")
		}
		in.Install.RegistryGiven = fs.Changed("image-registry")
		in.BackendURL, err = session.BackendURL(in.BackendURL)
		return err
	}
	return c.Run(command.Cluster|command.SignIn, func(ctx context.Context) error { return Do(ctx, in) })
}
