// Package catalog shows which APIs the person may bind. It binds nothing.
package catalog

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/controlplane"
	"gitbind.dev/konnector/internal/cli/output"
	"gitbind.dev/konnector/internal/cli/signin"
	"gitbind.dev/konnector/internal/cli/terminal"
)

// Input is what the person asked for.
type Input struct {
	// Cluster is the app cluster; nil when BackendURL is given.
	Cluster    *appcluster.Cluster
	Connection string
	// BackendURL has the form of session.BackendURL; that of the Connection
	// when empty.
	BackendURL string
	SignIn     *signin.SignIn
	How        signin.How
	// Search is a text that each offer shown must have somewhere; empty for all.
	Search   string
	Format   output.Format
	Terminal *terminal.Terminal
}

// Do prints the catalog.
func Do(ctx context.Context, in Input) error {
	backend, bound, err := in.open(ctx)
	if err != nil {
		return err
	}
	offers, err := backend.Catalog(ctx)
	if err != nil {
		return err
	}
	l := listing(search(offers, in.Search), bound)
	switch {
	case len(offers) == 0:
		l.Empty = "The control plane offers nothing that you may bind. Its operators say who may: RBAC, verb \"bind\" on apiserviceexporttemplates."
	default:
		l.Empty = fmt.Sprintf("None of the %d offers has %q in it: kubectl gitbind catalog lists them.", len(offers), in.Search)
	}
	return l.Print(in.Terminal, in.Format)
}

// open opens the backend, and finds which APIs the cluster has bound already;
// nil when no cluster is asked.
func (in Input) open(ctx context.Context) (*controlplane.Client, map[string]bool, error) {
	if in.BackendURL != "" {
		backend, err := controlplane.Open(ctx, in.BackendURL, in.SignIn, in.How)
		return backend, nil, err
	}
	connection, err := in.Cluster.Connection(ctx, in.Connection)
	if err != nil {
		return nil, nil, err
	}
	var list v1alpha1.APIServiceBindingList
	if err := in.Cluster.List(ctx, &list); err != nil && !meta.IsNoMatchError(err) && !apierrors.IsForbidden(err) {
		return nil, nil, fmt.Errorf("list bindings: %w", err)
	}
	bound := map[string]bool{}
	for _, b := range list.Items {
		bound[b.Name] = b.Spec.Connection == connection.Name
	}
	backend, err := controlplane.OpenFor(ctx, connection, in.SignIn, in.How)
	return backend, bound, err
}

// search keeps what has a text in its name, its titles or its API, whatever the
// case, by group and name.
func search(offers []restapi.Offer, text string) []restapi.Offer {
	var out []restapi.Offer
	for _, o := range offers {
		all := strings.Join([]string{o.Name, o.DisplayName, o.Group, o.Kind, o.API.BindingName(), o.Description}, "\n")
		if strings.Contains(strings.ToLower(all), strings.ToLower(text)) {
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b restapi.Offer) int {
		return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Name, b.Name))
	})
	return out
}

// item is an offer, and whether this cluster has it; that is left out when no
// cluster was asked.
type item struct {
	restapi.Offer
	BoundHere *bool `json:"boundHere,omitempty"`
}

func listing(offers []restapi.Offer, bound map[string]bool) output.Listing {
	l := output.Listing{Columns: []output.Column{
		{Name: "GROUP"}, {Name: "NAME"}, {Name: "BOUND"}, {Name: "KIND", Wide: true}, {Name: "API", Wide: true}, {Name: "BOUND IN", Wide: true}, {Name: "DESCRIPTION"},
	}}
	items := []item{}
	for _, o := range offers {
		one, here := item{Offer: o}, ""
		if bound != nil {
			is := bound[o.API.BindingName()]
			one.BoundHere, here = &is, "no"
			if is {
				here = "yes"
			}
		}
		items = append(items, one)
		l.Names = append(l.Names, o.Name)
		l.Rows = append(l.Rows, []string{
			cmp.Or(output.Line(o.Group), "-"), o.Name, cmp.Or(here, "-"), o.Kind, o.API.BindingName() + "/" + o.API.Version,
			cmp.Or(output.Line(strings.Join(o.Bound, ", ")), "-"), describe(o),
		})
	}
	l.Data = output.Items(items)
	return l
}

// describe is an offer in words. A title that only repeats the kind says nothing.
func describe(o restapi.Offer) string {
	title, text := output.Line(o.DisplayName), output.Line(o.Description)
	switch {
	case title == o.Kind || title == o.Name || title == "":
		return text
	case text == "":
		return title
	}
	return title + ": " + text
}
