// Package catalog shows which APIs the person may bind. It binds nothing.
package catalog

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/konnector/internal/cli/command"
	"gitbind.dev/konnector/internal/cli/output"
)

// Input is what the person asked for.
type Input struct {
	command.Call
	Connection string
	// BackendURL has the form of session.BackendURL; that of the Connection
	// when empty.
	BackendURL string
	// Search is a text that each offer shown must have somewhere; empty for all.
	Search string
	Format output.Format
}

// Do prints the catalog.
func Do(ctx context.Context, in Input) error {
	backend, connection, err := in.Open(ctx, in.BackendURL, in.Connection)
	if err != nil {
		return err
	}
	offers, err := backend.Catalog(ctx)
	if err != nil {
		return err
	}
	var bound map[string]bool // nil when no cluster is asked
	if connection != nil {
		bindings, err := in.Cluster.Bindings(ctx)
		if err != nil && !apierrors.IsForbidden(err) {
			return err
		}
		bound = map[string]bool{}
		for _, b := range bindings {
			bound[b.Name] = b.Spec.Connection == connection.Name
		}
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
