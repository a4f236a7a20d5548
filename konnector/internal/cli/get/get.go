// Package get shows a person what became of everything: connections, bindings,
// claims, and the files on main that were refused or have no object; and the
// clusters that are theirs on a control plane.
//
// It reads the app cluster with the person's own rights, and shows what these
// let it see. The control plane is asked about clusters only, and Git about who
// changed a claim, in wide tables.
package get

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/clone"
	"gitbind.dev/konnector/internal/cli/command"
	"gitbind.dev/konnector/internal/cli/output"
)

// Input is what the person asked for.
type Input struct {
	command.Call
	// Names limit it to these: of claims KIND/NAME or KIND, else NAME.
	Names []string
	// Selector limits bindings, or claims, by their labels.
	Selector labels.Selector
	Watch    bool
	Format   output.Format
}

// found is what the cluster has.
type found struct {
	connections []v1alpha1.Connection
	bindings    []v1alpha1.APIServiceBinding
	claims      []claim
	// offers are the names of the bound APIs for people, by binding.
	offers map[string]string
	// absent says since when no konnector is there; "" when one is.
	absent string
	// who has the last commit of each claim file, by path; nil when it was not
	// asked for.
	who map[string]clone.Commit
	now time.Time
}

// claim is one claim, and the binding that it belongs to.
type claim struct {
	object  unstructured.Unstructured
	binding string
	// depth is how many claims it belongs to, one by way of the other.
	depth int
}

// Do prints everything.
func Do(ctx context.Context, in Input) error {
	all, err := in.read(ctx)
	if err != nil {
		return err
	}
	if all.claims, _, err = in.claims(ctx, all.bindings); err != nil {
		return err
	}
	switch {
	case in.Format.IsData():
		list, err := all.list()
		if err != nil {
			return err
		}
		return output.Data(in.Terminal.Out, in.Format, list)
	case in.Format == output.Name:
		return all.names(in.Terminal.Out)
	}
	return all.tables(in.Terminal, in.Format == output.Wide)
}

// read reads connections and bindings.
func (in Input) read(ctx context.Context) (found, error) {
	out := found{now: in.Now()}
	var err error
	if out.connections, err = in.Cluster.Connections(ctx); err != nil && !apierrors.IsForbidden(err) {
		return out, err
	}
	if err == nil && len(out.connections) == 0 {
		return out, appcluster.ErrNotConnected
	}
	absent, err := in.Cluster.KonnectorAbsent(ctx, out.now)
	if err != nil {
		return out, err
	}
	if absent != nil {
		out.absent = absent.Say(out.now)
	}
	out.bindings, err = in.Cluster.Bindings(ctx)
	out.offers = offerNames(out.bindings)
	return out, err
}

// claims lists those of the bindings, by namespace and name, each behind the one that
// it belongs to, and gives the namespace of each binding where they were listed: "" for all.
// A binding whose claims the person may list nowhere has none.
func (in Input) claims(ctx context.Context, bindings []v1alpha1.APIServiceBinding) ([]claim, map[string]string, error) {
	var out []claim
	where := map[string]string{}
	for _, b := range bindings {
		items, namespace, err := in.claimsOf(ctx, b.Name)
		if apierrors.IsForbidden(err) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		where[b.Name] = namespace
		for i := range items {
			out = append(out, claim{object: items[i], binding: b.Name})
		}
	}
	slices.SortFunc(out, func(a, b claim) int { return strings.Compare(a.sortKey(), b.sortKey()) })
	return together(out, offersOf(bindings)), where, nil
}

func (c claim) sortKey() string {
	return c.object.GetNamespace() + "/" + c.object.GetName() + "/" + c.binding
}

// claimsOf lists the objects of a bound API: none while it is not installed, and
// those of the person's own namespace when all are too much to ask. It gives the namespace
// that it listed; the error of one who may list nothing is told already.
func (in Input) claimsOf(ctx context.Context, binding string) (items []unstructured.Unstructured, namespace string, err error) {
	namespace = in.Cluster.NamespaceAsked()
	selected := client.MatchingLabelsSelector{Selector: in.Selector}
	items, err = in.Cluster.Claims(ctx, binding, client.InNamespace(namespace), selected)
	if apierrors.IsForbidden(err) && namespace == "" {
		namespace = in.Cluster.Namespace
		if items, err = in.Cluster.Claims(ctx, binding, client.InNamespace(namespace), selected); err == nil {
			fmt.Fprintf(in.Notes, "You may not list %s in all namespaces: these are those of %s.\n", binding, namespace)
		}
	}
	if apierrors.IsForbidden(err) {
		fmt.Fprintf(in.Notes, "You may not list %s.\n", binding)
	}
	return items, namespace, err
}
