package get

import (
	"context"

	"gitbind.dev/konnector/internal/cli/controlplane"
	"gitbind.dev/konnector/internal/cli/output"
	"gitbind.dev/konnector/internal/cli/signin"
)

// Backend is which control plane to ask.
type Backend struct {
	// URL has the form of session.BackendURL; that of the Connection when empty.
	URL, Connection string
	How             signin.How
}

// clusters prints the person's clusters on a control plane.
func (in Input) clusters(ctx context.Context, b Backend) error {
	here := ""
	var client *controlplane.Client
	var err error
	if b.URL != "" {
		client, err = controlplane.Open(ctx, b.URL, in.SignIn, b.How)
	} else {
		connection, missing := in.Cluster.Connection(ctx, b.Connection)
		if missing != nil {
			return missing
		}
		here = connection.Spec.ClusterID
		client, err = controlplane.OpenFor(ctx, connection, in.SignIn, b.How)
	}
	if err != nil {
		return err
	}
	all, err := client.Clusters(ctx)
	if err != nil {
		return err
	}
	l := output.Listing{
		Columns: []output.Column{
			{Name: "CLUSTER"}, {Name: "ID"}, {Name: "CONNECTED", Colour: output.Good}, {Name: "SEEN"}, {Name: "THIS"}, {Name: "REPOSITORY", Wide: true},
		},
		Empty: "You have no clusters there: kubectl gitbind connect URL",
		Data:  output.Items(all),
	}
	for _, c := range all {
		this := ""
		if c.ID == here {
			this = "yes"
		}
		l.Rows = append(l.Rows, []string{output.Line(c.Name), c.ID, c.Connected, lastSeen(in.Now, c.LastSeen), this, c.RepositoryURL})
		l.Names = append(l.Names, "clusterbinding.gitbind.dev/"+c.ID)
	}
	return l.Print(in.Terminal, in.Format)
}
