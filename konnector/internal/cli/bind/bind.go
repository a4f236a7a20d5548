// Package bind makes an API that the control plane offers an API of this
// cluster: the control plane grants it to the cluster, the person grants the
// konnector the rights on it, and the konnector installs it.
//
// It grants rights on the one resource only, and on none that the cluster had
// before.
package bind

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backendv1alpha1 "gitbind.dev/backend/api/v1alpha1"
	konnectorv1alpha1 "gitbind.dev/konnector/api/v1alpha1"
	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/controlplane"
	"gitbind.dev/konnector/internal/cli/signin"
)

// Input is what the person asked for.
type Input struct {
	Cluster *appcluster.Cluster
	SignIn  *signin.SignIn
	How     signin.How

	Connection string
	// Names of offers, or "<plural>.<group>".
	Names []string
	// NoAggregate leaves out the roles that let those who may edit or view a
	// namespace do so with the API's objects.
	NoAggregate bool
	// Timeout of the wait for each binding; no wait when 0.
	Timeout time.Duration

	Out io.Writer
}

// Do binds all of the names, or none when one of them cannot be bound.
func Do(ctx context.Context, in Input) error {
	connection, err := in.Cluster.Connection(ctx, in.Connection)
	if err != nil {
		return err
	}
	if connection.Spec.BackendURL == "" {
		return fmt.Errorf("the connection %q names no backend to ask: bind through the repository", connection.Name)
	}
	// Whoever made the Connection has decided that.
	in.How.PlainHTTP = true
	backend, err := controlplane.Open(ctx, connection.Spec.BackendURL, in.SignIn, in.How)
	if err != nil {
		return err
	}
	catalog, err := backend.Catalog(ctx)
	if err != nil {
		return err
	}
	offers, err := find(catalog, in.Names)
	if err != nil {
		return err
	}
	for _, o := range offers {
		if err := checkFree(ctx, in.Cluster, o.API, connection.Name); err != nil {
			return err
		}
	}
	for _, o := range offers {
		if err := in.bind(ctx, backend, connection, o); err != nil {
			return fmt.Errorf("bind %s: %w", o.Name, err)
		}
	}
	return nil
}

// find looks each name up, as an offer's or as an API's.
func find(catalog []backendv1alpha1.Offer, names []string) ([]backendv1alpha1.Offer, error) {
	var out []backendv1alpha1.Offer
	for _, name := range names {
		i := slices.IndexFunc(catalog, func(o backendv1alpha1.Offer) bool { return o.Name == name || o.API.BindingName() == name })
		if i >= 0 {
			out = append(out, catalog[i])
			continue
		}
		if len(catalog) == 0 {
			return nil, fmt.Errorf("you may not bind %q, nor anything else: the control plane's operators say who may", name)
		}
		var offered []string
		for _, o := range catalog {
			offered = append(offered, o.Name)
		}
		slices.Sort(offered)
		return nil, fmt.Errorf("there is no %q that you may bind; there is: %s", name, strings.Join(offered, ", "))
	}
	return out, nil
}

func (in Input) bind(ctx context.Context, backend *controlplane.Client, connection *konnectorv1alpha1.Connection, offer backendv1alpha1.Offer) error {
	granted, err := backend.Bind(ctx, connection.Spec.ClusterID, offer.Name)
	if err != nil {
		return err
	}
	name := offer.API.BindingName()
	if granted.Name != name {
		return fmt.Errorf("the control plane granted %q, not %q", granted.Name, name)
	}
	fmt.Fprintf(in.Out, "Binding %s:\n", name)
	say := func(line string) { fmt.Fprintln(in.Out, "  "+line) }
	say("granted to cluster " + connection.Spec.ClusterID)
	attributed, err := in.apply(ctx, connection.Name, offer.API, say)
	if err != nil {
		return err
	}
	if in.Timeout == 0 {
		return nil
	}
	if err := in.wait(ctx, name, say); err != nil {
		return err
	}
	if attributed {
		if err := in.waitForPolicy(ctx, offer, say); err != nil {
			return err
		}
	}
	return in.printExample(ctx, name)
}

// apply gives the konnector what it needs before it is told to begin.
func (in Input) apply(ctx context.Context, connection string, api backendv1alpha1.ExportedAPI, say func(string)) (attributed bool, err error) {
	attributed = true
	for _, o := range objects(connection, api, in.NoAggregate) {
		line, err := in.Cluster.Apply(ctx, o)
		if meta.IsNoMatchError(err) && isAttribution(o) {
			say("no attribution: Kubernetes 1.36 can name the users who changed a claim, this cluster cannot")
			attributed = false
			continue
		}
		if err != nil {
			return false, err
		}
		say(line)
	}
	return attributed, nil
}

func (in Input) wait(ctx context.Context, name string, say func(string)) error {
	gvk := konnectorv1alpha1.GroupVersion.WithKind("APIServiceBinding")
	err := in.Cluster.Wait(ctx, gvk, name, konnectorv1alpha1.ConditionReady, in.Timeout, func(c metav1.Condition) { say(appcluster.Say(c)) })
	var late *appcluster.NotReady
	if errors.As(err, &late) && late.Condition == nil {
		return fmt.Errorf("%w: no konnector looks after it. It is bound as soon as one does", err)
	}
	return err
}

// checkFree refuses to give the konnector rights on what is not its own.
func checkFree(ctx context.Context, c *appcluster.Cluster, api backendv1alpha1.ExportedAPI, connection string) error {
	if err := grantable(api); err != nil {
		return err
	}
	name := api.BindingName()
	var bound konnectorv1alpha1.APIServiceBinding
	err := c.Get(ctx, client.ObjectKey{Name: name}, &bound)
	switch {
	case err == nil && bound.Spec.Connection != connection:
		return fmt.Errorf("%s is bound already, through the connection %q: an API belongs to one", name, bound.Spec.Connection)
	case err != nil && !apierrors.IsNotFound(err):
		return fmt.Errorf("read binding %s: %w", name, err)
	}
	return checkOwn(ctx, c, api)
}
