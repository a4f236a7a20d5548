package get

import (
	"context"

	"gitbind.dev/konnector/internal/cli/output"
)

// clusters prints the clusters that a person has on a control plane, and those that
// others share with them.
func clusters(ctx context.Context, in Input, url, connection string) error {
	backend, through, err := in.Open(ctx, url, connection)
	if err != nil {
		return err
	}
	here := ""
	if through != nil {
		here = through.Spec.ClusterID
	}
	all, err := backend.Clusters(ctx)
	if err != nil {
		return err
	}
	l := output.Listing{
		Columns: []output.Column{
			{Name: "CLUSTER"}, {Name: "ID"}, {Name: "CONNECTED", Colour: output.Good}, {Name: "SEEN"}, {Name: "OWNER"}, {Name: "THIS"}, {Name: "REPOSITORY", Wide: true},
		},
		Empty: "You have no clusters there: kubectl gitbind connect URL",
		Data:  output.Items(all),
	}
	for _, c := range all {
		this := ""
		if c.ID == here {
			this = "yes"
		}
		owner := "you"
		if c.Owner != "" {
			owner = c.Owner
		}
		if c.TransferTo != "" {
			owner += ", offered to " + c.TransferTo
		}
		l.Rows = append(l.Rows, []string{c.Name, c.ID, c.Connected, lastSeen(in.Now(), c.LastSeen), owner, this, c.RepositoryURL})
		l.Names = append(l.Names, "clusterbinding.gitbind.dev/"+c.ID)
	}
	return l.Print(in.Terminal, in.Format)
}
