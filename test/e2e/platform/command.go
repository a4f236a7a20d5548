package platform

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/sync/errgroup"

	"gitbind.dev/test/env"
)

// Kubectl runs kubectl with a kubeconfig and returns what it printed.
func (p *Platform) Kubectl(ctx context.Context, kubeconfig string, args ...string) (string, error) {
	return run(p.KubectlCommand(ctx, kubeconfig, args...))
}

// Plugin runs `kubectl gitbind` as a user who has signed in.
func (p *Platform) Plugin(ctx context.Context, user, kubeconfig string, args ...string) (string, error) {
	return run(p.plugin(ctx, user, kubeconfig, args...))
}

func (p *Platform) plugin(ctx context.Context, user, kubeconfig string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(p.Bin, "kubectl-gitbind"), append(args, "--kubeconfig="+kubeconfig)...)
	cmd.Env = p.environment(user)
	return cmd
}

// Git runs the stock git program as a user, in a folder. It gets the user's
// token from the plugin, as a credential helper.
func (p *Platform) Git(ctx context.Context, user, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-c", "credential.helper=!kubectl-gitbind git-credential"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(p.environment(user),
		"GIT_AUTHOR_NAME="+user, "GIT_AUTHOR_EMAIL="+user, "GIT_COMMITTER_NAME="+user, "GIT_COMMITTER_EMAIL="+user,
		"GIT_TERMINAL_PROMPT=0", "GIT_CONFIG_NOSYSTEM=1")
	return run(cmd)
}

func (p *Platform) environment(user string) []string {
	home := p.Home(user)
	variables := os.Environ()
	if p.CAFile != "" {
		variables = append(variables, "GIT_SSL_CAINFO="+p.CAFile)
	}
	return append(variables, "HOME="+home, "XDG_CONFIG_HOME="+filepath.Join(home, ".config"), "BROWSER=",
		"PATH="+p.Bin+string(os.PathListSeparator)+os.Getenv("PATH"))
}

func run(cmd *exec.Cmd) (string, error) {
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%s: %w\n%s", commandLine(cmd), err, out)
	}
	return string(out), nil
}

func commandLine(cmd *exec.Cmd) string {
	return strings.Join(append([]string{filepath.Base(cmd.Args[0])}, cmd.Args[1:]...), " ")
}

var webAddress = regexp.MustCompile(`https?://\S+`)

// Connect connects an app cluster as a user would: it runs `kubectl gitbind
// connect`, plays the browser that the plugin asks for, and starts the
// konnector as soon as its ServiceAccount is there. It returns what the plugin
// printed. If others run the components, it does not wait for the konnector.
func (p *Platform) Connect(ctx context.Context, user, cluster string) (string, error) {
	kubeconfig := p.Cluster(cluster).Kubeconfig
	args := []string{"connect", p.BackendURL, "--cluster-name", cluster, "--no-browser"}
	if p.pods != nil {
		args = append(args, "--ca-file", p.CAFile, "--yes")
	} else {
		args = append(args, "--no-deployment")
	}
	if p.attached {
		args = append(args, "--no-wait")
	}
	cmd := p.plugin(ctx, user, kubeconfig, args...)
	var printed bytes.Buffer
	r, w := io.Pipe()
	// One writer for both, so that one goroutine writes to it.
	both := io.MultiWriter(&printed, w)
	cmd.Stdout, cmd.Stderr = both, both
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer w.Close()
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s: %w\n%s", commandLine(cmd), err, printed.String())
		}
		return nil
	})
	group.Go(func() error {
		defer func() { _, _ = io.Copy(io.Discard, r) }()
		return p.signInWhenAsked(ctx, user, r)
	})
	if !p.attached && p.pods == nil && p.Konnector(cluster) == nil {
		group.Go(func() error {
			if _, err := p.Kubectl(ctx, kubeconfig, "wait", "--for=create", "--timeout=2m", "-n", "gitbind-system", "serviceaccount/konnector"); err != nil {
				return err
			}
			_, err := p.StartKonnector(ctx, cluster)
			return err
		})
	}
	err := group.Wait()
	return printed.String(), err
}

// signInWhenAsked opens the first address of the issuer that the plugin prints.
func (p *Platform) signInWhenAsked(ctx context.Context, user string, output io.Reader) error {
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		if url := webAddress.FindString(lines.Text()); strings.HasPrefix(url, p.Dex.Issuer) {
			return p.Dex.Browser(ctx, user, url)
		}
	}
	return lines.Err()
}

// ClusterID is the id of a connected app cluster, from its Connection.
func (p *Platform) ClusterID(ctx context.Context, cluster string) (string, error) {
	return p.Kubectl(ctx, p.Cluster(cluster).Kubeconfig, "get", "connections.gitbind.dev", "-o", "jsonpath={.items[0].spec.clusterID}")
}

// CloneURL is that of a connected app cluster's repository.
func (p *Platform) CloneURL(ctx context.Context, cluster string) (string, error) {
	return p.Kubectl(ctx, p.Cluster(cluster).Kubeconfig, "get", "connections.gitbind.dev", "-o", "jsonpath={.items[0].spec.repositoryURL}")
}

// Developer is a kubeconfig of an ordinary user who may edit in all namespaces
// of an app cluster, and no more.
func (p *Platform) Developer(ctx context.Context, cluster, name string) (string, error) {
	c := p.Cluster(cluster)
	_, err := p.Kubectl(ctx, c.Kubeconfig, "create", "clusterrolebinding", "edit-"+name, "--clusterrole=edit", "--user="+name)
	if err != nil {
		return "", err
	}
	return c.UserKubeconfig(name)
}

// App is the admin kubeconfig of the default app cluster.
func (p *Platform) App() string { return p.Cluster(env.App).Kubeconfig }

// Control is the admin kubeconfig of the control plane.
func (p *Platform) Control() string { return p.Cluster(env.Control).Kubeconfig }
