// Package revoke ends the credentials of a cluster's konnector. It deletes
// nothing, in neither cluster: what was ordered goes on, and changes wait.
package revoke

import (
	"context"
	"fmt"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/konnector/internal/cli/command"
	"gitbind.dev/konnector/internal/cli/controlplane"
	"gitbind.dev/konnector/internal/cli/usage"
)

// Input is what the person asked for.
type Input struct {
	command.Call
	Connection string
	// BackendURL has the form of session.BackendURL, and ClusterRef is a cluster's
	// id or name there: for one that cannot be reached any more.
	BackendURL, ClusterRef string

	DryRun, Yes bool
}

// Do revokes the credentials of one cluster.
func Do(ctx context.Context, in Input) error {
	backend, cluster, err := in.find(ctx)
	if err != nil {
		return err
	}
	out := in.Terminal.Out
	fmt.Fprintf(out, `The konnector of cluster %s will be refused, with whatever credential it has, and
its open connections end. Its services go on. What is changed in the cluster is kept
there and not committed; what is changed in Git does not reach the cluster.
`, named(cluster))
	if in.DryRun {
		fmt.Fprintln(out, "Nothing was changed.")
		return nil
	}
	if err := in.Terminal.Agree("Go on?", in.Yes); err != nil {
		return err
	}
	if err := backend.Revoke(ctx, cluster.ID); err != nil {
		return err
	}
	fmt.Fprintf(out, "Revoked. A new credential, from within that cluster: kubectl gitbind rotate\n")
	return nil
}

// find signs the person in, and finds the cluster that is meant.
func (in Input) find(ctx context.Context) (*controlplane.Client, restapi.Cluster, error) {
	backend, connection, err := in.Open(ctx, in.BackendURL, in.Connection)
	switch {
	case err != nil:
		return nil, restapi.Cluster{}, err
	case connection != nil:
		return backend, restapi.Cluster{ID: connection.Spec.ClusterID}, nil
	}
	all, err := backend.Clusters(ctx)
	if err != nil {
		return nil, restapi.Cluster{}, err
	}
	cluster, err := choose(all, in.ClusterRef)
	return backend, cluster, err
}

// choose is the cluster of an id or of a name.
func choose(all []restapi.Cluster, ref string) (restapi.Cluster, error) {
	var found []restapi.Cluster
	for _, c := range all {
		if c.ID == ref {
			return c, nil
		}
		if c.Name == ref {
			found = append(found, c)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		text := fmt.Sprintf("you have no cluster %q there", ref)
		for i, c := range all {
			sep := ", "
			if i == 0 {
				sep = "; yours are "
			}
			text += sep + named(c)
		}
		return restapi.Cluster{}, fmt.Errorf("%s", text)
	}
	return restapi.Cluster{}, usage.Errorf("you have several clusters %q: give the id, %s or %s", ref, found[0].ID, found[1].ID)
}

func named(c restapi.Cluster) string {
	if c.Name == "" {
		return c.ID
	}
	return c.ID + " (" + c.Name + ")"
}
