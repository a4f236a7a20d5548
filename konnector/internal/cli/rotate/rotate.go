// Package rotate replaces the credential of a cluster's konnector: all that it
// had end at once, and the new one is handed to it.
package rotate

import (
	"context"
	"fmt"
	"time"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/konnector/internal/cli/command"
	"gitbind.dev/konnector/internal/cli/connect"
)

// Input is what the person asked for.
type Input struct {
	command.Call
	Connection string
	DryRun     bool
	// Timeout of the wait for the konnector; no wait when 0.
	Timeout time.Duration
}

// Do rotates the credential of a Connection.
func Do(ctx context.Context, in Input) error {
	connection, err := in.Cluster.Connection(ctx, in.Connection)
	if err != nil {
		return err
	}
	out, ref := in.Terminal.Out, connection.Spec.SecretRef
	if in.DryRun {
		fmt.Fprintf(out, "Connection %s (cluster %s) would get a new credential, in its Secret %s in %s, and those before would end at once.\nNothing was changed.\n",
			connection.Name, connection.Spec.ClusterID, ref.Name, ref.Namespace)
		return nil
	}
	// The old credential ends at once, so the new one must find its place.
	if _, err := in.Cluster.Preview(ctx, connect.Secret(ref, &restapi.Credential{})); err != nil {
		return fmt.Errorf("see whether the new credential can be written: %w", err)
	}
	backend, err := in.Of(ctx, connection)
	if err != nil {
		return err
	}
	credential, err := backend.Rotate(ctx, connection.Spec.ClusterID)
	if err != nil {
		return connect.Unanswered(err)
	}
	writing, end := connect.Unbroken(ctx, in.Notes)
	_, err = connect.ApplySecret(writing, in.Cluster, ref, &credential)
	if end(); err != nil {
		return connect.Lost(err)
	}
	fmt.Fprintf(out, "Connection %s has a new credential, good until %s. Those before ended: nobody can do anything with them any more.\n",
		connection.Name, credential.Expires.Local().Format("2 January 2006"))
	if in.Timeout == 0 {
		return nil
	}
	fmt.Fprintln(out, "Waiting until the konnector works with it:")
	return connect.WaitReady(ctx, in.Call, connection.Name, connect.Awaited(connection, &credential), in.Timeout)
}
