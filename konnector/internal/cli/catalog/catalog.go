// Package catalog shows which APIs the person may bind. It binds nothing.
package catalog

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	backendv1alpha1 "gitbind.dev/backend/api/v1alpha1"
	konnectorv1alpha1 "gitbind.dev/konnector/api/v1alpha1"
	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/controlplane"
	"gitbind.dev/konnector/internal/cli/output"
	"gitbind.dev/konnector/internal/cli/signin"
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
	Format     output.Format
	Out        io.Writer
}

// Do prints the catalog.
func Do(ctx context.Context, in Input) error {
	bound, err := resolve(ctx, &in)
	if err != nil {
		return err
	}
	backend, err := controlplane.Open(ctx, in.BackendURL, in.SignIn, in.How)
	if err != nil {
		return err
	}
	offers, err := backend.Catalog(ctx)
	if err != nil {
		return err
	}
	slices.SortFunc(offers, func(a, b backendv1alpha1.Offer) int { return strings.Compare(a.Name, b.Name) })
	return write(in, offers, bound)
}

// resolve finds the backend, and which APIs the cluster has bound already.
func resolve(ctx context.Context, in *Input) (bound map[string]bool, err error) {
	if in.BackendURL != "" {
		return nil, nil
	}
	connection, err := in.Cluster.Connection(ctx, in.Connection)
	if err != nil {
		return nil, err
	}
	if in.BackendURL = connection.Spec.BackendURL; in.BackendURL == "" {
		return nil, fmt.Errorf("the connection %q names no backend: give its URL with --url", connection.Name)
	}
	// Whoever made the Connection has decided that.
	in.How.PlainHTTP = true
	var list konnectorv1alpha1.APIServiceBindingList
	if err := in.Cluster.List(ctx, &list); err != nil && !meta.IsNoMatchError(err) && !apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("list bindings: %w", err)
	}
	bound = map[string]bool{}
	for _, b := range list.Items {
		bound[b.Name] = b.Spec.Connection == connection.Name
	}
	return bound, nil
}

func write(in Input, offers []backendv1alpha1.Offer, bound map[string]bool) error {
	switch in.Format {
	case output.JSON, output.YAML:
		return output.Data(in.Out, in.Format, offers)
	case output.Name:
		for _, o := range offers {
			fmt.Fprintln(in.Out, o.Name)
		}
		return nil
	}
	if len(offers) == 0 {
		fmt.Fprintf(in.Out, "%s offers nothing that you may bind. Its operators say who may: RBAC, verb \"bind\" on apiserviceexporttemplates.\n", in.BackendURL)
		return nil
	}
	header := []string{"NAME", "KIND", "API", "BOUND", "DESCRIPTION"}
	var rows [][]string
	for _, o := range offers {
		rows = append(rows, []string{o.Name, o.Kind, o.API.BindingName() + "/" + o.API.Version, yes(bound[o.API.BindingName()]), output.Line(o.Description)})
	}
	return output.Rows(in.Out, header, rows)
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
