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
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/command"
	"gitbind.dev/konnector/internal/cli/controlplane"
	"gitbind.dev/konnector/internal/cli/install"
	"gitbind.dev/konnector/internal/cli/output"
	"gitbind.dev/konnector/internal/cli/progress"
)

// Input is what the person asked for.
type Input struct {
	command.Call
	Connection string
	// Names of offers, or "<plural>.<group>".
	Names []string
	// NoAggregate leaves out the roles that let those who may edit or view a
	// namespace do so with the API's objects.
	NoAggregate bool
	// Format YAML prints what would be applied to this cluster, and applies
	// nothing to it.
	Format output.Format
	// DryRun changes nothing here, and nothing in the control plane.
	DryRun bool
	// Timeout of the wait for each binding; no wait when 0.
	Timeout time.Duration
}

// Do binds all of the names, or none when it is seen at once that one of them cannot be
// bound.
func Do(ctx context.Context, in Input) error {
	backend, connection, err := in.Open(ctx, "", in.Connection)
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
	if err := install.CheckPlugin(ctx, in.Cluster); err != nil {
		return err
	}
	for _, o := range offers {
		going, err := checkFree(ctx, in.Cluster, o.API, connection.Name)
		if err == nil && going {
			err = in.refuseUnbinding(ctx, o.API)
		}
		if err != nil {
			return err
		}
	}
	b := binder{Input: in, backend: backend, connection: connection}
	switch {
	case in.Format == output.YAML:
		return inOrder(ctx, offers, b.print)
	case in.DryRun:
		if err := inOrder(ctx, offers, b.preview); err != nil {
			return err
		}
		fmt.Fprintln(in.Terminal.Out, "Nothing was changed.")
		return nil
	}
	return b.bindAll(ctx, offers)
}

// inOrder does something for each offer, one after the other.
func inOrder(ctx context.Context, offers []restapi.Offer, do func(context.Context, restapi.Offer) error) error {
	for _, o := range offers {
		if err := do(ctx, o); err != nil {
			return fmt.Errorf("bind %s: %w", o.Name, err)
		}
	}
	return nil
}

// find looks each name up, as an offer's or as an API's.
func find(catalog []restapi.Offer, names []string) ([]restapi.Offer, error) {
	var out []restapi.Offer
	for _, name := range names {
		i := slices.IndexFunc(catalog, func(o restapi.Offer) bool { return o.Name == name })
		if i < 0 {
			var several []string
			for at, o := range catalog {
				if o.API.BindingName() == name {
					i, several = at, append(several, o.Name)
				}
			}
			if len(several) > 1 {
				return nil, fmt.Errorf("there are several offers of %s: name one of them: %s (kubectl gitbind catalog says how they differ)", name, strings.Join(several, " or "))
			}
		}
		if i >= 0 {
			if !slices.ContainsFunc(out, func(o restapi.Offer) bool { return o.Name == catalog[i].Name }) {
				out = append(out, catalog[i])
			}
			continue
		}
		if len(catalog) == 0 {
			return nil, fmt.Errorf("you may not bind %q, nor anything else: the control plane's operators say who may", name)
		}
		if like := similar(catalog, name); len(like) > 0 {
			return nil, fmt.Errorf("there is no offer %q that you may bind: did you mean %s? kubectl gitbind catalog lists all", name, strings.Join(like, " or "))
		}
		return nil, fmt.Errorf("there is no offer %q that you may bind: kubectl gitbind catalog lists those that you may", name)
	}
	return out, nil
}

// binder binds APIs through one connection.
type binder struct {
	Input
	backend    *controlplane.Client
	connection *v1alpha1.Connection
}

// grant makes the control plane grant an offer to the cluster.
func (b binder) grant(ctx context.Context, offer restapi.Offer) error {
	granted, err := b.backend.Bind(ctx, b.connection.Spec.ClusterID, offer.Name)
	if err != nil {
		return err
	}
	if name := offer.API.BindingName(); granted.Name != name {
		return fmt.Errorf("the control plane granted %q, not %q", granted.Name, name)
	}
	return nil
}

// bindAll binds all offers at once, as most of the time is spent waiting for clusters.
// One that fails does not keep the others from being bound.
func (b binder) bindAll(ctx context.Context, offers []restapi.Offer) error {
	var names, apis []string
	for _, o := range offers {
		names, apis = append(names, o.Name), append(apis, o.API.BindingName())
	}
	fmt.Fprintf(b.Terminal.Out, "Binding %s:\n", strings.Join(apis, ", "))
	p := progress.Begin(b.Terminal, "binding "+strings.Join(names, ", "))
	defer p.End()
	errs := make([]error, len(offers))
	var all sync.WaitGroup
	for i, o := range offers {
		say := p.Say
		if len(offers) > 1 {
			say = func(line string) { p.Say(o.Name + ": " + line) }
		}
		// One after the other, as each may have to sign the person in.
		if errs[i] = b.grant(ctx, o); errs[i] != nil {
			continue
		}
		say("granted to cluster " + b.connection.Spec.ClusterID)
		all.Go(func() { errs[i] = b.bind(ctx, o, say) })
	}
	all.Wait()
	p.End()
	for i := range offers {
		if errs[i] == nil && b.Timeout > 0 {
			errs[i] = b.printExample(ctx, apis[i])
		}
		if errs[i] != nil {
			errs[i] = fmt.Errorf("bind %s: %w", names[i], errs[i])
		}
	}
	return errors.Join(errs...)
}

// bind makes an API that was granted one of this cluster.
func (b binder) bind(ctx context.Context, offer restapi.Offer, say func(string)) error {
	attributed, err := b.apply(ctx, offer, say)
	if err != nil || b.Timeout == 0 {
		return err
	}
	if err := b.wait(ctx, offer.API.BindingName(), say); err != nil {
		return err
	}
	if attributed {
		return b.waitForPolicy(ctx, offer, say)
	}
	return nil
}

// preview says what bind would do, and does nothing.
func (b binder) preview(ctx context.Context, offer restapi.Offer) error {
	fmt.Fprintf(b.Terminal.Out, "Binding %s would do this:\n  %s would be granted to cluster %s\n", offer.API.BindingName(), offer.Name, b.connection.Spec.ClusterID)
	objects, _, err := b.served(offer, b.note)
	if err != nil {
		return err
	}
	return b.Cluster.PreviewAll(ctx, b.Terminal.Out, objects)
}

// print prints what bind would apply. The control plane grants the offer, since
// the person who applies the objects later need not be allowed to bind.
func (b binder) print(ctx context.Context, offer restapi.Offer) error {
	if !b.DryRun {
		if err := b.grant(ctx, offer); err != nil {
			return err
		}
		fmt.Fprintf(b.Notes, "%s is granted to cluster %s. Nothing was applied to this cluster: apply what is printed.\n", offer.Name, b.connection.Spec.ClusterID)
	}
	objects, _, err := b.served(offer, b.note)
	if err != nil {
		return err
	}
	return b.Cluster.Print(b.Terminal.Out, objects)
}

func (b binder) note(line string) { fmt.Fprintln(b.Notes, line) }

// served are the objects that binding an offer applies to this cluster, in order, and whether its changes are
// attributed to users then.
func (b binder) served(offer restapi.Offer, say func(string)) (out []client.Object, attributed bool, err error) {
	attributed = true
	out, err = appcluster.Served(b.Cluster, objects(b.connection.Name, offer, b.NoAggregate), func(client.Object) {
		say("no attribution: Kubernetes 1.36 can name the users who changed a claim, this cluster cannot")
		attributed = false
	})
	return out, attributed, err
}

// apply gives the konnector what it needs before it is told to begin.
func (b binder) apply(ctx context.Context, offer restapi.Offer, say func(string)) (attributed bool, err error) {
	objects, attributed, err := b.served(offer, say)
	if err != nil {
		return false, err
	}
	for _, o := range objects {
		line, err := applyForGood(ctx, b.Cluster, o)
		if err != nil {
			return false, err
		}
		say(line)
	}
	return attributed, nil
}

func (in Input) wait(ctx context.Context, name string, say func(string)) error {
	gvk := v1alpha1.GroupVersion.WithKind("APIServiceBinding")
	err := in.Cluster.Wait(ctx, gvk, name, appcluster.IsTrue(v1alpha1.ConditionReady), in.Timeout, say)
	var late *appcluster.NotReady
	if errors.As(err, &late) && late.Condition == nil {
		return fmt.Errorf("%w: no konnector looks after it. It is bound as soon as one does", err)
	}
	return err
}

// checkFree refuses to give the konnector rights on what is not its own. It reports whether the API
// is being unbound.
func checkFree(ctx context.Context, c *appcluster.Cluster, api v1alpha1.ExportedAPI, connection string) (going bool, err error) {
	if err := grantable(api); err != nil {
		return false, err
	}
	name := api.BindingName()
	var bound v1alpha1.APIServiceBinding
	err = c.Get(ctx, client.ObjectKey{Name: name}, &bound)
	switch {
	case err == nil && bound.Spec.Connection != connection:
		return false, fmt.Errorf("%s is bound already, through the connection %q: an API belongs to one", name, bound.Spec.Connection)
	case err != nil && !apierrors.IsNotFound(err):
		return false, fmt.Errorf("read binding %s: %w", name, err)
	}
	return !bound.DeletionTimestamp.IsZero(), checkOwn(ctx, c, api)
}

// refuseUnbinding refuses to bind an API that is being unbound, as what is applied to it would go
// with it. The konnector's rights it gives all the same: without them the unbinding may not end, and
// with it they are taken back.
func (in Input) refuseUnbinding(ctx context.Context, api v1alpha1.ExportedAPI) error {
	rights := []client.Object{konnectorRole(api), konnectorRoleBinding(api)}
	if in.DryRun || in.Format == output.YAML {
		rights = nil
	}
	for _, o := range rights {
		line, err := in.Cluster.Apply(ctx, o)
		if err != nil {
			return err
		}
		fmt.Fprintln(in.Terminal.Out, line)
	}
	name := api.BindingName()
	return fmt.Errorf("%s is being unbound: bind it again when that is done (kubectl gitbind unbind %s watches it)", name, name)
}
