// Package get shows a person what became of everything: connections, bindings,
// claims, and the files on main that were refused or have no object.
//
// It reads the app cluster only, with the person's own rights, and shows what
// these let it see.
package get

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	konnectorv1alpha1 "gitbind.dev/konnector/api/v1alpha1"
	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/output"
)

// Input is what the person asked for.
type Input struct {
	Cluster *appcluster.Cluster
	// Namespace limits the claims; all that the person may see when empty.
	Namespace string
	Format    output.Format
	Out       io.Writer
	// Notes are for what could not be shown.
	Notes io.Writer
}

// found is what the cluster has.
type found struct {
	connections []konnectorv1alpha1.Connection
	bindings    []konnectorv1alpha1.APIServiceBinding
	claims      []claim
	// absent says since when no konnector is there; "" when one is.
	absent string
}

// claim is one claim, and the binding that it belongs to.
type claim struct {
	object  unstructured.Unstructured
	binding string
}

// Do prints everything.
func Do(ctx context.Context, in Input) error {
	all, err := in.read(ctx)
	if err != nil {
		return err
	}
	switch in.Format {
	case output.JSON, output.YAML:
		list, err := all.list()
		if err != nil {
			return err
		}
		return output.Data(in.Out, in.Format, list)
	case output.Name:
		return all.names(in.Out)
	}
	return all.tables(in.Out, in.Format == output.Wide)
}

func (in Input) read(ctx context.Context) (found, error) {
	connections, err := in.Cluster.Connections(ctx)
	if err != nil && !apierrors.IsForbidden(err) {
		return found{}, err
	}
	if err == nil && len(connections) == 0 {
		return found{}, fmt.Errorf("this cluster is not connected to a control plane: kubectl gitbind connect URL")
	}
	out := found{connections: connections}
	now := time.Now()
	absent, err := in.Cluster.KonnectorAbsent(ctx, now)
	if err != nil {
		return found{}, err
	}
	if absent != nil {
		out.absent = absent.Say(now)
	}
	var bindings konnectorv1alpha1.APIServiceBindingList
	if err := in.Cluster.List(ctx, &bindings); apierrors.IsForbidden(err) {
		return found{}, fmt.Errorf("list bindings: %w: the ClusterRole gitbind-view lets you", err)
	} else if err != nil {
		return found{}, fmt.Errorf("list bindings: %w", err)
	}
	out.bindings = bindings.Items
	for _, b := range out.bindings {
		items, err := in.claims(ctx, b.Name)
		if err != nil {
			return found{}, err
		}
		for i := range items {
			out.claims = append(out.claims, claim{object: items[i], binding: b.Name})
		}
	}
	slices.SortFunc(out.claims, func(a, b claim) int {
		return strings.Compare(a.object.GetNamespace()+"/"+a.object.GetName()+"/"+a.binding, b.object.GetNamespace()+"/"+b.object.GetName()+"/"+b.binding)
	})
	return out, nil
}

// claims lists the objects of a bound API: none while it is not installed, and
// those of the person's own namespace when all are too much to ask.
func (in Input) claims(ctx context.Context, binding string) ([]unstructured.Unstructured, error) {
	gvk, err := in.Cluster.KindOf(binding)
	if meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for the API %s: %w", binding, err)
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	err = in.Cluster.List(ctx, list, client.InNamespace(in.Namespace))
	if apierrors.IsForbidden(err) && in.Namespace == "" {
		if err = in.Cluster.List(ctx, list, client.InNamespace(in.Cluster.Namespace)); err == nil {
			fmt.Fprintf(in.Notes, "You may not list %s in all namespaces: these are those of %s.\n", binding, in.Cluster.Namespace)
		}
	}
	if apierrors.IsForbidden(err) {
		fmt.Fprintf(in.Notes, "You may not list %s.\n", binding)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", binding, err)
	}
	return list.Items, nil
}
