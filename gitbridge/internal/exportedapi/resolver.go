// Package exportedapi tells which APIs of the control plane an app cluster may use,
// and what the bridge must know of each. It reads exports and definitions; it
// grants nothing.
package exportedapi

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/crossplane"
	"gitbind.dev/gitbridge/internal/decision"
	"gitbind.dev/gitbridge/internal/drift"
	"gitbind.dev/gitbridge/internal/export"
	"gitbind.dev/gitbridge/internal/transform"
	"gitbind.dev/gitbridge/policy"
	claimschema "gitbind.dev/gitbridge/schema"
	"gitbind.dev/policies/evaluator"
)

// API is one API, as an app cluster may or may not use it.
type API struct {
	Access decision.Access
	// Why says, unless Access is Granted, what is in the way.
	Why string
	// Unpermitted says that the cluster may not bind it any more: what it ordered
	// stays, and nothing new is ordered.
	Unpermitted bool
	// The rest is set when Access is Granted.
	*Definition
	// Template is what the platform makes of claims, nil for nothing. Where it
	// cannot be used, Unusable says why.
	Template *transform.Template
	Unusable *transform.TemplateError
	// Policies are those of the offer, nil for none.
	Policies *evaluator.Set
	// PoliciesOf is another one whenever Policies are.
	PoliciesOf string
	// PolicyObjects are what Policies were made of, none where they cannot be used.
	PolicyObjects []runtime.RawExtension
	// Keys are the labels and annotations that travel beside the usual.
	Keys contract.Keys
	// PermissionClaims are what travels with claims, in both directions.
	PermissionClaims []v1alpha1.PermissionClaim
	// Quota bounds what the cluster may have, nil for nothing.
	Quota *v1alpha1.Quota
	// Ready is the type of the condition that says whether a service can be used, "" for
	// the usual one.
	Ready string
	// Changes says how changes in app clusters come to main.
	Changes v1alpha1.Changes
	// Offer is what the template says for people, nil for a template that is gone.
	Offer *v1alpha1.Offer
}

// Revision is another one whenever claims may come out as another object, with
// other Secrets, within another quota, or ready by another condition.
func (a API) Revision() string {
	if a.Unpermitted {
		a.Unpermitted = false
		return "unpermitted " + a.Revision()
	}
	switch {
	case a.Definition == nil:
		return string(a.Access) + " " + a.Why
	case a.Unusable != nil:
		return a.Version + " " + a.Unusable.Error()
	default:
		return a.Version + " " + a.Template.Revision() + " " + strings.Join(a.Keys, " ") + fmt.Sprint(a.PermissionClaims) + a.Quota.String() + a.Ready + a.PoliciesOf
	}
}

// Definition is what a definition on the control plane says.
type Definition struct {
	// Binding is "<plural>.<group>".
	Binding  string
	Kind     schema.GroupVersionKind
	Resource schema.GroupVersionResource
	// Versions are those that a claim file may have: see export.Versions.
	Versions []string
	Shape    crossplane.Shape
	Schema   *claimschema.Schema
	// Fields tells which fields of an applied object are the bridge's.
	Fields *drift.Fields
	// Snapshot is the definition for app clusters.
	Snapshot *runtime.RawExtension
	// Version changes whenever the definition does.
	Version string
}

// Resolver answers from a cache of exports and of the metadata of definitions,
// and reads a definition itself only when it is another one than before. A
// template's patches are read once for each generation.
type Resolver struct {
	Cache  client.Reader
	Server client.Reader

	mu          sync.Mutex
	definitions map[v1alpha1.ExportedAPI]taken
	templates   map[string]compiled
}

// taken is what a version of a definition came to: without a Definition, why says so.
type taken struct {
	version string
	*Definition
	why string
}

// compiled is what a template came to.
type compiled struct {
	of       string
	template *transform.Template
	unusable *transform.TemplateError
	policies *evaluator.Set
	// policiesOf tells policies apart.
	policiesOf string
	objects    []runtime.RawExtension
	keys       contract.Keys
	secrets    []v1alpha1.PermissionClaim
	quota      *v1alpha1.Quota
	ready      string
	changes    v1alpha1.Changes
	offer      *v1alpha1.Offer
}

// Resolve looks up a binding of the cluster with that tenant namespace.
func (r *Resolver) Resolve(ctx context.Context, namespace, binding string) (API, error) {
	var e v1alpha1.APIServiceExport
	err := r.Cache.Get(ctx, client.ObjectKey{Namespace: namespace, Name: binding}, &e)
	switch {
	case apierrors.IsNotFound(err):
		return API{Access: decision.NotBound, Why: "it is not bound"}, nil
	case err != nil:
		return API{}, fmt.Errorf("get export %s: %w", binding, err)
	}
	return r.Export(ctx, &e)
}

// Bound are the resources that the exports of namespaces are of, also where they are not granted.
func (r *Resolver) Bound(ctx context.Context, isOurs func(namespace string) bool) (map[schema.GroupVersionResource]bool, error) {
	var exports v1alpha1.APIServiceExportList
	if err := r.Cache.List(ctx, &exports, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list exports: %w", err)
	}
	bound := map[schema.GroupVersionResource]bool{}
	for i := range exports.Items {
		if e := &exports.Items[i]; isOurs(e.Namespace) {
			bound[schema.GroupVersionResource(e.Spec.API)] = true
		}
	}
	return bound, nil
}

// Export looks up what an export grants.
func (r *Resolver) Export(ctx context.Context, e *v1alpha1.APIServiceExport) (API, error) {
	switch {
	case e.DeletionTimestamp != nil:
		return API{Access: decision.NotBound, Why: "it is being unbound"}, nil
	case e.Name != e.Spec.API.BindingName():
		return API{Access: decision.NotGranted, Why: fmt.Sprintf("the export must be named %s", e.Spec.API.BindingName())}, nil
	case !meta.IsStatusConditionTrue(e.Status.Conditions, v1alpha1.ConditionGranted):
		return API{Access: decision.NotGranted, Why: "the rights on it are not granted yet"}, nil
	}
	definition, why, err := r.definition(ctx, e.Spec.API)
	switch {
	case err != nil:
		return API{}, err
	case definition == nil:
		return API{Access: decision.NotServed, Why: why}, nil
	}
	c, err := r.template(ctx, e.Spec.Template)
	if err != nil {
		return API{}, err
	}
	offer := c.offer.DeepCopy()
	if offer != nil && offer.DisplayName == "" {
		offer.DisplayName = definition.Kind.Kind
	}
	return API{
		Access: decision.Granted, Unpermitted: meta.IsStatusConditionFalse(e.Status.Conditions, v1alpha1.ConditionPermitted),
		Definition: definition, Template: c.template, Unusable: c.unusable, Policies: c.policies, PoliciesOf: c.policiesOf, PolicyObjects: c.objects,
		Keys: c.keys, PermissionClaims: c.secrets, Quota: c.quota, Ready: c.ready, Changes: c.changes, Offer: offer,
	}, nil
}

// template reads a template's patches. One that is gone cannot be used: what it
// set for claims must not vanish with it.
func (r *Resolver) template(ctx context.Context, name string) (compiled, error) {
	var t v1alpha1.APIServiceExportTemplate
	err := r.Cache.Get(ctx, client.ObjectKey{Name: name}, &t)
	if apierrors.IsNotFound(err) {
		// An export may be seen before its template is.
		err = r.Server.Get(ctx, client.ObjectKey{Name: name}, &t)
	}
	switch {
	case apierrors.IsNotFound(err):
		return compiled{unusable: &transform.TemplateError{Template: name, Reason: "does not exist any more"}}, nil
	case err != nil:
		return compiled{}, fmt.Errorf("get template %s: %w", name, err)
	}
	return r.read(&t)
}

// read reads a template's patches once for each generation.
func (r *Resolver) read(t *v1alpha1.APIServiceExportTemplate) (compiled, error) {
	of := fmt.Sprintf("%s/%d", t.UID, t.Generation)
	r.mu.Lock()
	defer r.mu.Unlock()
	if c, ok := r.templates[t.Name]; ok && c.of == of {
		return c, nil
	}
	template, err := transform.Compile(t.Name, t.Spec.Transform)
	c := compiled{of: of, template: template, keys: t.Spec.MetadataKeys, secrets: t.Spec.PermissionClaims, quota: t.Spec.Quota.DeepCopy(), changes: t.Spec.Changes, offer: &v1alpha1.Offer{
		DisplayName: t.Spec.DisplayName, Group: t.Spec.Group, References: t.Spec.References, Secrets: len(v1alpha1.DirectionDown.Of(t.Spec.PermissionClaims)) > 0,
	}}
	if c.ready = t.Spec.ReadyCondition; c.ready == contract.DefaultReadyCondition {
		c.ready = "" // An answer names it only where it is another one.
	}
	if err != nil && !errors.As(err, &c.unusable) {
		return compiled{}, err
	}
	if c.policies, err = policy.Compile(t.Spec.Policies); err != nil && c.unusable == nil {
		c.unusable = &transform.TemplateError{Template: t.Name, Reason: "has policies that cannot be used: " + policy.Told(err)}
	}
	if err == nil {
		c.objects = t.Spec.Policies
	}
	c.policiesOf = policy.Revision(t.Spec.Policies)
	if r.templates == nil {
		r.templates = map[string]compiled{}
	}
	r.templates[t.Name] = c
	return c, nil
}

// definition is nil where the API cannot be had; why says so.
func (r *Resolver) definition(ctx context.Context, api v1alpha1.ExportedAPI) (d *Definition, why string, err error) {
	name := api.BindingName()
	known := &metav1.PartialObjectMetadata{}
	known.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	switch err := r.Cache.Get(ctx, client.ObjectKey{Name: name}, known); {
	case apierrors.IsNotFound(err):
		return nil, "the control plane has no API " + name, nil
	case err != nil:
		return nil, "", fmt.Errorf("get definition %s: %w", name, err)
	}
	r.mu.Lock()
	t := r.definitions[api]
	r.mu.Unlock()
	if t.version == string(known.UID)+"/"+known.ResourceVersion {
		return t.Definition, t.why, nil
	}

	var live apiextensionsv1.CustomResourceDefinition
	switch err := r.Server.Get(ctx, client.ObjectKey{Name: name}, &live); {
	case apierrors.IsNotFound(err):
		return nil, "the control plane has no API " + name, nil
	case err != nil:
		return nil, "", fmt.Errorf("get definition %s: %w", name, err)
	}
	if !apihelpers.IsCRDConditionTrue(&live, apiextensionsv1.Established) {
		return nil, "the control plane does not serve " + name + " yet", nil
	}
	t = taken{version: string(live.UID) + "/" + live.ResourceVersion}
	if t.Definition, err = define(&live, api, t.version); err != nil {
		t.Definition, t.why = nil, err.Error()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.definitions == nil {
		r.definitions = map[v1alpha1.ExportedAPI]taken{}
	}
	r.definitions[api] = t
	return t.Definition, t.why, nil
}

// define is what a definition says of an API. The error says why it cannot be had.
func define(live *apiextensionsv1.CustomResourceDefinition, api v1alpha1.ExportedAPI, version string) (*Definition, error) {
	crd, err := export.CRD(live, api)
	if err != nil {
		return nil, err
	}
	d := &Definition{
		Binding:  live.Name,
		Kind:     schema.GroupVersionKind{Group: api.Group, Version: api.Version, Kind: live.Spec.Names.Kind},
		Resource: schema.GroupVersionResource{Group: api.Group, Version: api.Version, Resource: api.Resource},
		Versions: export.Versions(live, api),
		Shape:    crossplane.ShapeOf(live),
		Version:  version,
	}
	if d.Schema, err = claimschema.New(crd); err != nil {
		return nil, err
	}
	if d.Fields, err = drift.NewFields(live, api.Version); err != nil {
		return nil, err
	}
	d.Snapshot, err = export.Snapshot(crd)
	return d, err
}
