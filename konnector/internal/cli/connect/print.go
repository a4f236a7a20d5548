package connect

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/konnector/internal/cli/controlplane"
	"gitbind.dev/konnector/internal/cli/install"
)

// preview says what connect would do. It signs nobody in: it asks the backend
// for nothing but who does.
func (c connecting) preview(ctx context.Context) error {
	info, err := controlplane.Ask(ctx, c.BackendURL, c.SignIn, c.How)
	if err != nil {
		return err
	}
	out := c.Terminal.Out
	fmt.Fprintf(out, "Connecting %s, at %s, to %s would do this:\n", c.Cluster.Context, c.Cluster.Server, c.BackendURL)
	if c.How.Token == "" {
		fmt.Fprintf(out, "  you would sign in at %s, unless you are\n", info.Issuer)
	}
	objects, err := c.installed()
	if err != nil {
		return err
	}
	if err := c.Cluster.PreviewAll(ctx, out, objects); err != nil {
		return err
	}
	if c.before == nil {
		fmt.Fprintf(out, "  %s would get a repository and a credential in the control plane\n  secret/gitbind-%s and connection/%s would be created\n", displayName(c.Input), c.Name, c.Name)
	} else {
		fmt.Fprintf(out, "  secret/%s would get a new credential, and the old one end\n", c.before.Spec.SecretRef.Name)
		if err := c.Cluster.PreviewAll(ctx, out, c.kept(c.before.Spec.RepositoryURL)); err != nil {
			return err
		}
	}
	fmt.Fprintln(out, "Nothing was changed.")
	return nil
}

// kept is what a cluster that is connected has of that already, but for its
// credential.
func (c connecting) kept(repositoryURL string) []client.Object {
	return objects(connectionTo(c.Input, restapi.Cluster{ID: c.before.Spec.ClusterID, RepositoryURL: repositoryURL}))
}

// print prints what connect would apply. A cluster that is not connected yet
// gets its place in the control plane for that; one that is keeps its
// credential, which would otherwise end before the printed one is applied.
func (c connecting) print(ctx context.Context) error {
	var more []client.Object
	if c.before == nil {
		if c.Reclaim != "" {
			if err := c.agree(ctx); err != nil {
				return err
			}
		}
		uid, err := c.Cluster.UID(ctx)
		if err != nil {
			return err
		}
		backend, _, err := c.backend(ctx)
		if err != nil {
			return err
		}
		answer, err := c.register(ctx, backend, uid)
		if err != nil {
			return err
		}
		connection := connectionTo(c.Input, answer)
		more = append([]client.Object{Secret(connection.Spec.SecretRef, answer.Credential)}, objects(connection)...)
		fmt.Fprintf(c.Notes, "Nothing was applied to this cluster: apply what is printed. Its Secret %s holds a credential that is good until %s: encrypt it, or keep it out of Git.\n",
			connection.Spec.SecretRef.Name, answer.Credential.Expires.Local().Format("2 January 2006"))
	} else {
		repositoryURL, err := c.repositoryURL(ctx)
		if err != nil {
			return err
		}
		more = c.kept(repositoryURL)
		fmt.Fprintf(c.Notes, "This cluster is connected already. Its Secret %s is left out: the credential stays as it is. A new one: kubectl gitbind rotate\n", c.before.Spec.SecretRef.Name)
	}
	objects, err := c.installed()
	if err != nil {
		return err
	}
	return c.Cluster.Print(c.Terminal.Out, append(objects, more...))
}

// repositoryURL is where the repository is of a cluster that is connected: elsewhere, if the
// control plane got another URL.
func (c connecting) repositoryURL(ctx context.Context) (string, error) {
	if c.before.Spec.BackendURL == c.BackendURL {
		return c.before.Spec.RepositoryURL, nil
	}
	_, clusters, err := c.backend(ctx)
	for _, there := range clusters {
		if there.ID == c.before.Spec.ClusterID {
			return there.RepositoryURL, err
		}
	}
	return "", err
}

// installed is what is installed, or would be.
func (c connecting) installed() ([]client.Object, error) {
	return install.Served(c.Cluster, c.Install, func(line string) { fmt.Fprintln(c.Notes, line) })
}
