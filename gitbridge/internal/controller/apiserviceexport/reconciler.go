// Package apiserviceexport publishes the exports of each app cluster: the
// definition that the cluster shall install goes into the export's status, and
// from there to the branch status. It grants nothing, and an API that cannot be
// had any more stays published until its export is deleted.
package apiserviceexport

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/backoff"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/decision"
	"gitbind.dev/gitbridge/internal/export"
	"gitbind.dev/gitbridge/internal/exportedapi"
	"gitbind.dev/gitbridge/internal/session"
	"gitbind.dev/gitbridge/internal/statusbranch"
	"gitbind.dev/gitbridge/store"
)

// byDefinition finds the exports of a definition, byTemplate those of a template.
const (
	byDefinition = "definition"
	byTemplate   = "template"
)

// pushTimeout is how long a worker, which is there for all app clusters, waits for one's Git
// host. The budget of github.com has a push wait for nearly as long.
const pushTimeout = 10 * time.Second

// Exports tells what an export comes to.
type Exports interface {
	Export(ctx context.Context, e *v1alpha1.APIServiceExport) (exportedapi.API, error)
}

// Objects are what the control plane has of the APIs.
type Objects interface {
	// Watch returns when all objects of a kind that an app cluster has are known. It calls
	// waits, if not nil, before it waits for anything.
	Watch(ctx context.Context, of schema.GroupVersionKind, binding, clusterID string, waits func()) error
}

// Reconciler publishes exports.
type Reconciler struct {
	Client client.Client
	// Server reads from the API server: the cache has exports as program.SlimExport leaves them.
	Server   client.Reader
	Exports  Exports
	Objects  Objects
	Sessions *session.Registry
	// IsOurs reports whether a tenant namespace is of a cluster of this bridge's shard.
	// What another one follows is not its own to speak of.
	IsOurs func(namespace string) bool

	events chan event.GenericEvent

	mu sync.Mutex
	// published is what the claims of an export were last looked at with.
	published map[types.NamespacedName]string
}

// SetupWithManager adds the reconciler to a manager.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager) error {
	r.events, r.published = make(chan event.GenericEvent, 1024), map[types.NamespacedName]string{}
	for index, value := range map[string]func(*v1alpha1.APIServiceExport) string{
		byDefinition: func(e *v1alpha1.APIServiceExport) string { return e.Spec.API.BindingName() },
		byTemplate:   func(e *v1alpha1.APIServiceExport) string { return e.Spec.Template },
	} {
		if err := mgr.GetFieldIndexer().IndexField(ctx, &v1alpha1.APIServiceExport{}, index, func(o client.Object) []string {
			return []string{value(o.(*v1alpha1.APIServiceExport))}
		}); err != nil {
			return err
		}
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("apiserviceexport").
		For(&v1alpha1.APIServiceExport{}, builder.WithPredicates(predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return !isOnlyUsage(e) }})).
		WatchesMetadata(&apiextensionsv1.CustomResourceDefinition{}, handler.EnqueueRequestsFromMapFunc(r.of(byDefinition)),
			builder.WithPredicates(predicate.ResourceVersionChangedPredicate{})).
		Watches(&v1alpha1.APIServiceExportTemplate{}, handler.EnqueueRequestsFromMapFunc(r.of(byTemplate)),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(source.Channel(r.events, &handler.EnqueueRequestForObject{})).
		WithOptions(backoff.Controller(8)).
		Complete(r)
}

// of maps a definition, or a template, to its exports.
func (r *Reconciler) of(index string) handler.MapFunc {
	return func(ctx context.Context, o client.Object) []reconcile.Request {
		var exports v1alpha1.APIServiceExportList
		if err := r.Client.List(ctx, &exports, client.MatchingFields{index: o.GetName()}); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Exports are not looked at", "changed", index, "name", o.GetName())
			return nil
		}
		var requests []reconcile.Request
		for _, e := range exports.Items {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&e)})
		}
		return requests
	}
}

// Began has all exports of a cluster looked at, also those that are on its
// branch status only: status can be written now.
func (r *Reconciler) Began(ctx context.Context, s *session.Session) {
	names := map[string]bool{}
	for entry := range s.Status.Snapshot().List(contract.Root) {
		binding, file, ok := strings.Cut(strings.TrimPrefix(entry.Path, contract.Root+"/"), "/")
		if ok && contract.Root+"/"+binding+"/"+file == contract.ExportPath(binding) {
			names[binding] = true
		}
	}
	var exports v1alpha1.APIServiceExportList
	if err := r.Client.List(ctx, &exports, client.InNamespace(s.Cluster.Namespace)); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Exports are not looked at", "cluster", s.Cluster.ID)
	}
	for _, e := range exports.Items {
		names[e.Name] = true
	}
	for name := range names {
		e := &v1alpha1.APIServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: s.Cluster.Namespace, Name: name}}
		select {
		case r.events <- event.GenericEvent{Object: e}:
		case <-ctx.Done():
			return
		}
	}
}

// Reconcile publishes one export.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if !r.IsOurs(req.Namespace) {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.published, req.NamespacedName)
		return ctrl.Result{}, nil
	}
	s := r.Sessions.In(req.Namespace)
	var e v1alpha1.APIServiceExport
	switch err := r.Client.Get(ctx, req.NamespacedName, &e); {
	case err != nil && !apierrors.IsNotFound(err):
		return ctrl.Result{}, err
	case err != nil, e.DeletionTimestamp != nil:
		return ctrl.Result{}, r.withdraw(ctx, s, req.NamespacedName)
	}
	api, err := r.Exports.Export(ctx, &e)
	if err != nil {
		return ctrl.Result{}, err
	}
	defer r.lookAtClaims(ctx, s, req.NamespacedName, api)
	if s != nil && (api.Quota != nil || e.Status.Quota != nil) {
		s.CountQuota(e.Name)
	}
	followed := isFollowed(s)
	if api.Access == decision.Granted && !followed && meta.FindStatusCondition(e.Status.Conditions, v1alpha1.ConditionPublished) != nil {
		// It comes again when the repository is followed. What was published
		// before still is.
		return ctrl.Result{}, nil
	}
	var live v1alpha1.APIServiceExport
	if err := r.Server.Get(ctx, req.NamespacedName, &live); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	e = live
	if api.Offer == nil {
		// What a template that is gone said last stays.
		api.Keys, api.PermissionClaims, api.PolicyObjects = e.Status.MetadataKeys, e.Status.Inputs, e.Status.Policies
		api.Changes, api.Offer = e.Status.Changes, e.Status.Offer
	}
	switch {
	case api.Access != decision.Granted:
		return ctrl.Result{}, r.say(ctx, &e, exportedapi.API{}, no(string(api.Access), api.Why))
	case !followed:
		return ctrl.Result{}, r.say(ctx, &e, api, no("NotFollowed", "the repository is not followed yet, or not reached"))
	}
	published := metav1.Condition{Status: metav1.ConditionTrue, Reason: "Published", Message: "the app cluster can install the API"}
	content := export.Published{CRD: api.Snapshot, Keys: api.Keys, Inputs: v1alpha1.DirectionUp.Of(api.PermissionClaims), Policies: api.PolicyObjects, Changes: api.Changes, Offer: api.Offer}
	data, err := export.File(&e, content)
	if err == nil && len(data) > store.MaxFile && len(content.Policies) > 0 {
		// An API without its first gate is better than none: the bridge judges by all of them.
		content.Policies, api.PolicyObjects = nil, nil
		published.Message += "; its policies are too large for a file in Git, and the control plane alone judges by them"
		data, err = export.File(&e, content)
	}
	switch {
	case err != nil:
		return ctrl.Result{}, err
	case len(data) > store.MaxFile:
		// It comes again when the definition is another one.
		return ctrl.Result{}, r.say(ctx, &e, exportedapi.API{}, no("TooLarge", tooLarge(len(data))))
	}
	if err := write(ctx, s, statusbranch.Change{
		Path: contract.ExportPath(e.Name), Data: data, Subject: "status: export " + e.Name,
	}); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.say(ctx, &e, api, published)
}

// isFollowed reports whether status can be written, as far as is known. When it can again, each
// export of the cluster is looked at: see Began.
func isFollowed(s *session.Session) bool {
	return s != nil && s.View().Main != nil && s.Stops.Why() == nil && s.IsReached()
}

// write changes a file of status, or gives up.
func write(ctx context.Context, s *session.Session, c statusbranch.Change) error {
	ctx, cancel := context.WithTimeoutCause(ctx, pushTimeout, fmt.Errorf("the Git host did not take it within %s", pushTimeout))
	defer cancel()
	return s.Write(ctx, c)
}

// withdraw takes an export off the branch. Its claims are answered again, and
// nothing of them is deleted.
func (r *Reconciler) withdraw(ctx context.Context, s *session.Session, name types.NamespacedName) error {
	if !isFollowed(s) {
		// It comes again when status can be written.
		return nil
	}
	if err := write(ctx, s, statusbranch.Change{
		Path: contract.ExportPath(name.Name), Subject: "status: withdraw " + name.Name,
	}); err != nil {
		return fmt.Errorf("withdraw %s: %w", name.Name, err)
	}
	r.lookAtClaims(ctx, s, name, exportedapi.API{Access: decision.NotBound})
	return nil
}

// lookAtClaims has the claims of an export looked at when it is another one than
// before.
func (r *Reconciler) lookAtClaims(ctx context.Context, s *session.Session, name types.NamespacedName, api exportedapi.API) {
	now := api.Revision()
	r.mu.Lock()
	was, known := r.published[name]
	if api.Access == decision.NotBound {
		delete(r.published, name)
	} else {
		r.published[name] = now
	}
	r.mu.Unlock()
	if s == nil || known && was == now {
		return
	}
	if api.Access == decision.Granted {
		// There may be objects without a file: their claims come with them. What is in the
		// way is told when a claim is looked at.
		go func() { _ = r.Objects.Watch(ctx, api.Kind, api.Binding, s.Cluster.ID, nil) }()
	}
	s.EnqueueBinding(name.Name)
}

func tooLarge(size int) string {
	return fmt.Sprintf("the definition is too large to travel: as a file in Git it has %d bytes, and may have %d. The app cluster keeps the one that it has, if any. "+
		"Shorten the definition, such as its descriptions", size, store.MaxFile)
}

func no(reason, message string) metav1.Condition {
	return metav1.Condition{Status: metav1.ConditionFalse, Reason: reason, Message: message}
}
