package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

var (
	namespaces  = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	configMaps  = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	bindings    = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"}
	definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

// makeNamespace makes one in the app cluster that the konnector may read claims' Secrets in.
// It may be called again.
func makeNamespace(ctx context.Context, client dynamic.Interface, name string) error {
	namespace := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}}
	_, err := client.Resource(namespaces).Create(ctx, namespace, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	const role = "gitbind-konnector-inputs"
	binding := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": bindings.GroupVersion().String(), "kind": "RoleBinding", "metadata": map[string]any{"name": role},
		"roleRef":  map[string]any{"apiGroup": bindings.Group, "kind": "ClusterRole", "name": role},
		"subjects": []any{map[string]any{"kind": "ServiceAccount", "namespace": "gitbind-system", "name": "konnector"}},
	}}
	_, err = client.Resource(bindings).Namespace(name).Create(ctx, binding, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// isGone reports whether an API server has answered that there is no such object; not, that
// it does not serve such objects.
func isGone(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// An ending is how the objects of claims go though nobody deletes them.
type ending struct {
	what string
	// reason is why a claim is held then.
	reason string
	// owned says that it is about claims that have an owner.
	owned bool
	// spares says that it may leave objects behind: Kubernetes takes a namespace for empty
	// when an API server that has just begun does not know all kinds yet.
	spares bool
	// begin begins it, and force has what ends the objects gone before they are; nil for
	// what cannot be forced. Both may be called again.
	begin, force func(a *administrator, ctx context.Context, namespace string) error
}

var endings = []ending{
	{what: "the namespace is deleted", reason: "NamespaceDeleted", spares: true, begin: (*administrator).deleteNamespace, force: (*administrator).finalizeNamespace},
	{what: "the definition is deleted", reason: "APIDeleted", begin: (*administrator).deleteDefinition, force: (*administrator).finalizeDefinition},
	{what: "the owner is deleted", reason: "OwnerDeleted", owned: true, begin: (*administrator).deleteOwner},
}

// administrator ends the objects of claims in the app cluster with what they are in, and
// decides then what becomes of each. Until it has, every service is to stay. Its claims, all
// of one API, are nobody else's.
type administrator struct {
	*developer
	api *api
	// app and control have all rights in their clusters.
	app, control dynamic.Interface
	// onControl is the namespace of the control plane for one of the app cluster.
	onControl func(namespace string) string
	// resolve is `kubectl gitbind resolve`.
	resolve func(ctx context.Context, c *claim, take string) error
	say     func(format string, args ...any)
	// rounding is held while a round lasts, and restoreAt is when somebody wants it to restore
	// the cluster.
	rounding  sync.Mutex
	restoreAt time.Time
	// rounds counts what has ended; stay are the claims that are left of the last one.
	rounds int
	stay   []*claim
}

// lastRound is how long before the load ends the last round begins: some take twice as long.
const lastRound = 20 * time.Second

// longRound is how long a round may take on a busy machine. None begins so shortly before a
// restore, which would have to wait until the load is over.
const longRound = 80 * time.Second

// work ends and decides until load ends, one after the other. What was begun is brought to
// its end, as long as run lasts.
func (a *administrator) work(run, load context.Context, rng *rand.Rand) {
	end, _ := load.Deadline()
	for n := rng.IntN(len(endings)); load.Err() == nil && time.Until(end) > lastRound; n++ {
		if left := time.Until(a.restoreAt); left > 0 && left < longRound {
			sleep(load, left+time.Second)
		}
		a.round(run, endings[n%len(endings)], fmt.Sprintf("ended-%d", n), rng)
		sleep(load, time.Duration(rng.Int64N(int64(10*a.pause))))
	}
}

// round makes claims, ends their objects, and decides about each.
func (a *administrator) round(run context.Context, e ending, namespace string, rng *rand.Rand) {
	a.rounding.Lock()
	defer a.rounding.Unlock()
	a.clear(run)
	claims := a.order(run, namespace, e.owned)
	services, ok := a.awaitServices(run, claims)
	if !ok || len(claims) == 0 {
		return
	}
	ended, ok := a.end(run, e, namespace, claims)
	if !ok {
		return
	}
	if e.force != nil && rng.IntN(2) == 0 {
		a.say("%s: %s by force", namespace, e.what)
		if !a.try(run, nil, e.what+" by force", func(ctx context.Context) error { return e.force(a, ctx, namespace) }) {
			return
		}
	}
	sleep(run, time.Duration(rng.Int64N(int64(20*a.pause))))
	var released []*claim
	for _, c := range ended {
		a.keepsService(run, c, services[c], e.what)
		take := []string{"delete", "release"}[rng.IntN(2)]
		if a.decide(run, c, take) && take == "release" {
			released = append(released, c)
		}
	}
	for _, c := range released {
		a.awaitNew(run, c)
	}
	a.stay = append(a.stay, released...)
	a.rounds++
}

// awaitServices waits until each claim has a service, and gives their UIDs.
func (a *administrator) awaitServices(run context.Context, claims []*claim) (map[*claim]types.UID, bool) {
	services := map[*claim]types.UID{}
	for _, c := range claims {
		if !a.try(run, c, "its service comes", func(ctx context.Context) error {
			u, err := a.service(ctx, c)
			if err == nil {
				services[c] = u.GetUID()
			}
			return err
		}) {
			return nil, false
		}
	}
	return services, true
}

// end ends the objects of claims, and waits until each is held. Those that the ending spared
// stay for the next round.
func (a *administrator) end(run context.Context, e ending, namespace string, claims []*claim) (ended []*claim, ok bool) {
	a.say("%s: %s", namespace, e.what)
	if !a.try(run, nil, e.what, func(ctx context.Context) error { return e.begin(a, ctx, namespace) }) {
		return nil, false
	}
	for _, c := range claims {
		isSpared := false
		if !a.try(run, c, "it is held as "+e.reason, func(ctx context.Context) (err error) {
			if e.spares {
				isSpared, err = a.restoreSpared(ctx, c)
			}
			if err != nil || isSpared {
				return err
			}
			return a.isHeld(ctx, c, e.reason)
		}) {
			return nil, false
		}
		if isSpared {
			a.stay = append(a.stay, c)
		} else {
			ended = append(ended, c)
		}
	}
	return ended, true
}

// keepsService looks whether the service of a claim that nobody has decided on is as it was.
func (a *administrator) keepsService(run context.Context, c *claim, service types.UID, what string) {
	a.try(run, c, "its service can be looked at", func(ctx context.Context) error {
		u, err := a.service(ctx, c)
		if isGone(err) || err == nil && (u.GetUID() != service || u.GetDeletionTimestamp() != nil) {
			a.journal.giveUp(c.key(), "its service went when %s, though nobody had decided that", what)
			return nil
		}
		return err
	})
}

// clear deletes what is left of the round before: the next one may end the definition of all.
func (a *administrator) clear(run context.Context) {
	for _, c := range a.stay {
		a.delete(run, c)
	}
	for _, c := range a.stay {
		a.try(run, c, "it is gone when it was deleted", func(ctx context.Context) error {
			_, err := a.objects(c).Get(ctx, c.name, metav1.GetOptions{})
			switch {
			case err == nil:
				return errors.New("it is there")
			case isGone(err):
				return nil
			}
			return err
		})
	}
	a.stay = nil
}

// order makes the claims of a round.
func (a *administrator) order(run context.Context, namespace string, owned bool) []*claim {
	var owner types.UID
	if !a.try(run, nil, "namespace "+namespace+" is made", func(ctx context.Context) error {
		err := makeNamespace(ctx, a.app, namespace)
		if err == nil && owned {
			owner, err = a.makeOwner(ctx, namespace)
		}
		return err
	}) {
		return nil
	}
	var claims []*claim
	for i := range 2 {
		c := &claim{api: a.api, namespace: namespace, name: fmt.Sprintf("ends-%d", i), size: "one of its own", owner: owner, rate: newRate()}
		if a.create(run, c); c.there {
			claims = append(claims, c)
		}
	}
	return claims
}

// decide has a held claim deleted or released, until its object is gone.
func (a *administrator) decide(run context.Context, c *claim, take string) bool {
	sent := time.Now()
	isDecided := false
	if !a.try(run, c, "it goes when "+take+" is decided", func(ctx context.Context) error {
		u, err := a.objects(c).Get(ctx, c.name, metav1.GetOptions{})
		switch {
		case isGone(err), err == nil && string(u.GetUID()) != c.uid:
			if !isDecided {
				a.journal.giveUp(c.key(), "its object went though nobody had decided that")
			}
			return nil
		case err != nil:
			return err
		}
		if err := makeNamespace(ctx, a.app, c.namespace); err != nil && !apierrors.IsForbidden(err) {
			return err // Forbidden is what a namespace answers that goes.
		}
		// What it answers may be lost.
		isDecided = true
		if err := a.resolve(ctx, c, take); err != nil {
			return err
		}
		return errors.New("it is not gone yet")
	}) {
		return false
	}
	if take == "delete" {
		c.there = false
		a.journal.write(Entry{Sent: sent, Side: Cluster, Op: Delete, Claim: c.key(), Life: c.life, Outcome: Accepted, Note: "decided"})
	}
	return true
}

// awaitNew waits until a released claim has an object again.
func (a *administrator) awaitNew(run context.Context, c *claim) {
	sent := time.Now()
	a.try(run, c, "it is created again when it was released", func(ctx context.Context) error {
		if err := makeNamespace(ctx, a.app, c.namespace); err != nil {
			return err
		}
		u, err := a.objects(c).Get(ctx, c.name, metav1.GetOptions{})
		switch {
		case err != nil:
			return err
		case string(u.GetUID()) == c.uid || u.GetDeletionTimestamp() != nil:
			return errors.New("the object is still the one before")
		}
		c.uid = string(u.GetUID())
		a.journal.write(Entry{Sent: sent, Side: Cluster, Op: Release, Claim: c.key(), Life: c.life, Outcome: Accepted, Note: c.uid})
		return nil
	})
	a.edit(run, c, c.api.cluster[0], false)
}

func (a *administrator) service(ctx context.Context, c *claim) (*unstructured.Unstructured, error) {
	return a.control.Resource(c.api.resource).Namespace(a.onControl(c.namespace)).Get(ctx, c.name, metav1.GetOptions{})
}

// restoreSpared reports whether a claim's object stays though its namespace went. The
// namespace is made again then.
func (a *administrator) restoreSpared(ctx context.Context, c *claim) (bool, error) {
	namespace, err := a.app.Resource(namespaces).Get(ctx, c.namespace, metav1.GetOptions{})
	if isGone(err) {
		a.say("%s is gone, and there are objects in it", c.namespace)
		return false, makeNamespace(ctx, a.app, c.namespace)
	}
	if err != nil || namespace.GetDeletionTimestamp() != nil {
		return false, err
	}
	u, err := a.objects(c).Get(ctx, c.name, metav1.GetOptions{})
	return err == nil && u.GetDeletionTimestamp() == nil, err
}

// isHeld is an error as long as a claim is not held for a reason.
func (a *administrator) isHeld(ctx context.Context, c *claim, reason string) error {
	u, err := a.objects(c).Get(ctx, c.name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if held := condition(u, "Held"); held["status"] != "True" || held["reason"] != reason {
		return fmt.Errorf("its condition Held is %v", held)
	}
	return nil
}

// allowDeletion is what the protection of namespaces and definitions asks for.
func (a *administrator) allowDeletion(ctx context.Context, of schema.GroupVersionResource, name string) error {
	_, err := a.app.Resource(of).Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"annotations":{"gitbind.dev/allow-deletion":"true"}}}`), metav1.PatchOptions{})
	return err
}

// remove deletes a namespace or a definition, which then goes when the objects in it have.
func (a *administrator) remove(ctx context.Context, of schema.GroupVersionResource, name string) error {
	u, err := a.app.Resource(of).Get(ctx, name, metav1.GetOptions{})
	if isGone(err) {
		return nil // An answer was lost.
	}
	if err != nil || u.GetDeletionTimestamp() != nil {
		return err
	}
	if err := a.allowDeletion(ctx, of, name); err != nil {
		return err
	}
	return a.app.Resource(of).Delete(ctx, name, metav1.DeleteOptions{})
}

func (a *administrator) deleteNamespace(ctx context.Context, name string) error {
	return a.remove(ctx, namespaces, name)
}

func (a *administrator) finalizeNamespace(ctx context.Context, name string) error {
	u, err := a.app.Resource(namespaces).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && u.GetDeletionTimestamp() == nil {
		return nil
	}
	if err != nil {
		return err
	}
	unstructured.RemoveNestedField(u.Object, "spec", "finalizers")
	if _, err := a.app.Resource(namespaces).Update(ctx, u, metav1.UpdateOptions{}, "finalize"); err != nil {
		return err
	}
	return errors.New("it is not gone yet")
}

func (a *administrator) deleteDefinition(ctx context.Context, _ string) error {
	return a.remove(ctx, definitions, a.api.binding())
}

// finalizeDefinition has the definition gone, and the objects are left in etcd.
func (a *administrator) finalizeDefinition(ctx context.Context, _ string) error {
	u, err := a.app.Resource(definitions).Get(ctx, a.api.binding(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && u.GetDeletionTimestamp() == nil {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = a.app.Resource(definitions).Patch(ctx, a.api.binding(), types.MergePatchType, []byte(`{"metadata":{"finalizers":[]}}`), metav1.PatchOptions{})
	return err
}

// try is a developer's, and has the definition served meanwhile.
func (a *administrator) try(run context.Context, c *claim, what string, do func(context.Context) error) bool {
	return a.developer.try(run, c, what, func(ctx context.Context) error {
		err := do(ctx)
		if err != nil {
			_ = a.serveDefinition(ctx)
		}
		return err
	})
}

// serveDefinition changes a definition whose names the API server has accepted, and which it has
// not called established. A server that is killed between the two would look at it again after
// five minutes without being killed (crdHandler of k8s.io/apiextensions-apiserver).
func (a *administrator) serveDefinition(ctx context.Context) error {
	u, err := a.app.Resource(definitions).Get(ctx, a.api.binding(), metav1.GetOptions{})
	if err != nil {
		return err
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &crd); err != nil {
		return err
	}
	if !apihelpers.IsCRDConditionTrue(&crd, apiextensionsv1.NamesAccepted) || apihelpers.IsCRDConditionTrue(&crd, apiextensionsv1.Established) {
		return nil
	}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"chaos.example/accepted":%q}}}`, crd.ResourceVersion)
	_, err = a.app.Resource(definitions).Patch(ctx, a.api.binding(), types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

const ownerName = "owner"

// makeOwner makes what owns the claims of a namespace.
func (a *administrator) makeOwner(ctx context.Context, namespace string) (types.UID, error) {
	owner := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": ownerName}}}
	all := a.app.Resource(configMaps).Namespace(namespace)
	u, err := all.Create(ctx, owner, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		u, err = all.Get(ctx, ownerName, metav1.GetOptions{})
	}
	if err != nil {
		return "", err
	}
	return u.GetUID(), nil
}

func (a *administrator) deleteOwner(ctx context.Context, namespace string) error {
	err := a.app.Resource(configMaps).Namespace(namespace).Delete(ctx, ownerName, metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
