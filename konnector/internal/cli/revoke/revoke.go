// Package revoke ends the credentials of a cluster's konnector. It deletes
// nothing, in neither cluster: what was ordered goes on, and changes wait.
package revoke

import (
	"context"
	"fmt"

	"gitbind.dev/konnector/internal/cli/command"
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
	backend, cluster, err := in.OpenCluster(ctx, in.BackendURL, in.Connection, in.ClusterRef)
	if err != nil {
		return err
	}
	out := in.Terminal.Out
	fmt.Fprintf(out, `The konnector of cluster %s will be refused, with whatever credential it has, and
its open connections end. Its services go on. What is changed in the cluster is kept
there and not committed; what is changed in Git does not reach the cluster.
On a Git host of your own, what opens the repository for it ends within seconds, or by
itself within the hour.
`, cluster)
	if in.DryRun {
		fmt.Fprintln(out, "Nothing was changed.")
		return nil
	}
	if err := in.Terminal.Agree(ctx, "Go on?", in.Yes); err != nil {
		return err
	}
	if err := backend.Revoke(ctx, cluster.ID); err != nil {
		return err
	}
	fmt.Fprintf(out, "Revoked. A new credential, from within that cluster: kubectl gitbind rotate\n")
	return nil
}
