// Package transfer hands clusters over from one owner to another, who accepts.
package transfer

import (
	"context"
	"fmt"

	"gitbind.dev/konnector/internal/cli/command"
)

// Input is what the person asked for: one of To, Withdraw and Accept.
type Input struct {
	command.Call
	Connection string
	// BackendURL has the form of session.BackendURL, and ClusterRef is a cluster's
	// id or name there.
	BackendURL, ClusterRef string

	To       string
	Withdraw bool
	// Accept is the id of a cluster.
	Accept string

	Yes bool
}

// Do offers a cluster, takes the offer back, or accepts one.
func Do(ctx context.Context, in Input) error {
	out := in.Terminal.Out
	if in.Accept != "" {
		backend, _, err := in.Open(ctx, in.BackendURL, in.Connection)
		if err != nil {
			return err
		}
		cluster, err := backend.AcceptTransfer(ctx, in.Accept)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, `Cluster %s (%s) is yours. Its konnector goes on with the credential that it has, which
the owner before may know, and those with whom it was shared keep that:
  kubectl gitbind rotate    gives the konnector another credential, from within that cluster
  kubectl gitbind share     lists who gets at the repository
`, cluster.ID, cluster.Name)
		return nil
	}
	backend, cluster, err := in.OpenCluster(ctx, in.BackendURL, in.Connection, in.ClusterRef)
	if err != nil {
		return err
	}
	if in.Withdraw {
		if _, err := backend.Transfer(ctx, cluster.ID, ""); err != nil {
			return err
		}
		fmt.Fprintf(out, "Cluster %s is offered to nobody.\n", cluster)
		return nil
	}
	fmt.Fprintf(out, "Cluster %s, with its repository and the say on its services, will be %s's as soon as they accept.\n", cluster, in.To)
	if err := in.Terminal.Agree(ctx, "Go on?", in.Yes); err != nil {
		return err
	}
	offered, err := backend.Transfer(ctx, cluster.ID, in.To)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "Offered to %s, who accepts with: kubectl gitbind transfer --accept %s --url %s\n", offered.TransferTo, offered.ID, backend.URL())
	return nil
}
