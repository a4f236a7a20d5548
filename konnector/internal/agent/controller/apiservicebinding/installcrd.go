package apiservicebinding

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/admission"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/brief"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/konnector/internal/agent/compatibility"
)

// refusedWait is when to try a definition again that this cluster does not take as it is:
// because of objects that it breaks, or of its API server's rules.
const refusedWait = 30 * time.Second

// wanted is the definition that the export in Git says. Where that was withdrawn, or cannot be
// used, it is the one that there is, if claims were kept in step by it, and why it is not the
// export's.
func (r *Reconciler) wanted(ctx context.Context, l *look) (*apiextensionsv1.CustomResourceDefinition, *notReady, error) {
	b := l.binding
	path := contract.ExportPath(b.Name)
	data, err := l.view.Status.Read(path)
	if l.view.StatusReplaced != "" {
		// What it grants may be yesterday's, or another cluster's.
		return r.installed(ctx, b, l.view.StatusReplaced)
	}
	if errors.Is(err, store.ErrNotExist) {
		if b.Status.Kind == "" {
			return nil, l.notGranted(path), nil
		}
		// Nobody else would commit edits of the claims, or let go of those that are deleted.
		crd, _, err := r.installed(ctx, b, "")
		return crd, l.notGranted(path), err
	}
	crd, terms, err := readExport(b, data, err)
	if err != nil {
		invalid := &notReady{reason: "ExportInvalid", message: fmt.Sprintf("%s on branch status cannot be used: %s.", path, err)}
		if b.Status.Kind == "" {
			return nil, invalid, nil
		}
		if asksForReview(data) {
			l.terms.Changes = v1alpha1.ChangesPullRequest
		}
		crd, _, err = r.installed(ctx, b, "")
		return crd, invalid, err
	}
	l.terms, l.policies = terms, &terms.Policies
	return crd, nil, nil
}

// readExport takes from an export all that counts here. Unread is why it could not be read.
func readExport(b *v1alpha1.APIServiceBinding, data []byte, unread error) (*apiextensionsv1.CustomResourceDefinition, terms, error) {
	if unread != nil {
		return nil, terms{}, unread
	}
	crd, err := definition(b.Name, b.Spec.Connection, data)
	if err != nil {
		return nil, terms{}, err
	}
	t, err := readTerms(data)
	return crd, t, err
}

// notGranted says why there is no export: in the control plane's words, if it has
// said no.
func (l *look) notGranted(path string) *notReady {
	if c := l.granted(); c != nil && c.Status == metav1.ConditionFalse {
		return &notReady{reason: c.Reason, message: c.Message}
	}
	advice := " (kubectl gitbind bind)"
	if l.facts.Terminating {
		advice = ""
	}
	return &notReady{reason: "WaitingForExport", message: fmt.Sprintf("There is no %s on branch status: the control plane does not grant the API to this cluster%s, or is not running.", path, advice)}
}

// installed is the definition as it is, with our status, where Git cannot be asked.
func (r *Reconciler) installed(ctx context.Context, b *v1alpha1.APIServiceBinding, why string) (*apiextensionsv1.CustomResourceDefinition, *notReady, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	err := r.Live.Get(ctx, client.ObjectKey{Name: b.Name}, crd)
	if client.IgnoreNotFound(err) != nil {
		return nil, nil, fmt.Errorf("get CustomResourceDefinition %s: %w", b.Name, err)
	}
	if err != nil || crd.Annotations[v1alpha1.ConnectionAnnotation] != b.Spec.Connection {
		return nil, &notReady{reason: "StatusReplaced", message: why}, nil
	}
	prepare(&crd.Spec)
	return crd, nil, nil
}

// install creates or updates the definition, and waits until it is served. It returns one that
// somebody is deleting, too, as that stays until the claims' objects have lost their finalizer, and
// one whose update was refused or failed: claims go by that meanwhile.
func (r *Reconciler) install(ctx context.Context, l *look, want *apiextensionsv1.CustomResourceDefinition) (*apiextensionsv1.CustomResourceDefinition, *notReady, error) {
	live := &apiextensionsv1.CustomResourceDefinition{}
	var present *apiextensionsv1.CustomResourceDefinition
	err := r.Live.Get(ctx, client.ObjectKeyFromObject(want), live)
	key := contract.Key{Binding: l.binding.Name}
	isOurs := live.Annotations[v1alpha1.ConnectionAnnotation] == want.Annotations[v1alpha1.ConnectionAnnotation]
	switch {
	case apierrors.IsNotFound(err):
		live = want.DeepCopy()
		err = r.Client.Create(ctx, live)
		l.schema = schemaIs(metav1.ConditionTrue, "UpToDate", "The newest definition of the API is installed.")
	case err != nil:
		return nil, nil, fmt.Errorf("get CustomResourceDefinition %s: %w", want.Name, err)
	case live.DeletionTimestamp != nil:
		holds := isOurs && apihelpers.IsCRDConditionTrue(live, apiextensionsv1.Established)
		if _, unbound := live.Annotations[unboundAnnotation]; unbound && holds {
			// Its objects go, and nothing holds them but what came while it was marked.
			if holds, err = r.mayHoldClaims(ctx, live); err != nil {
				return nil, nil, err
			}
		}
		if !holds {
			live = nil
		}
		return live, &notReady{reason: "CRDTerminating", message: fmt.Sprintf("CustomResourceDefinition %s is being deleted. It is installed again when it is gone.", want.Name)}, nil
	case !isOurs:
		return nil, conflict(want, live), nil
	default:
		var next *apiextensionsv1.CustomResourceDefinition
		if next, l.schema, err = r.next(ctx, l, live, want); err != nil {
			return nil, nil, err
		}
		if l.schema.Reason == "BreakingChange" {
			l.retry = refusedWait
		}
		if next != nil {
			if apihelpers.IsCRDConditionTrue(live, apiextensionsv1.Established) {
				present = live
			}
			if !r.mayRewrite(key, live) {
				return present, r.rewrittenByOthers(l, key), nil
			}
			before := live
			live = next
			r.Claims.Redefine(want.Name)
			if err = r.Client.Update(ctx, live); err == nil {
				r.rewrote(key, before)
			}
		}
	}
	if err != nil {
		l.schema = nil // It is not installed.
		return notInstalled(ctx, want.Name, present, err)
	}
	if waits := notServed(live); waits != nil {
		return nil, waits, nil
	}
	return live, r.rewrittenByOthers(l, key), nil
}

// notInstalled says why a definition was not created or updated. Present is the one that is served
// meanwhile, nil for none.
func notInstalled(ctx context.Context, name string, present *apiextensionsv1.CustomResourceDefinition, err error) (*apiextensionsv1.CustomResourceDefinition, *notReady, error) {
	switch {
	case apierrors.IsInvalid(err), admission.Denied(err):
		return present, &notReady{reason: "CRDRefused", retry: refusedWait, message: "This cluster's API server refuses the definition of the API: " + err.Error()}, nil
	case admission.Stale(err), apierrors.IsAlreadyExists(err):
		return nil, &notReady{reason: "CRDNotEstablished", message: "The CustomResourceDefinition is being installed.", retry: conflictWait}, nil
	case apierrors.IsForbidden(err):
		return nil, &notReady{reason: "Forbidden", retry: rightsWait, message: fmt.Sprintf(
			"The konnector may not install the definition of %s in this cluster. Bind the API again (kubectl gitbind bind) to grant it.", name)}, nil
	case present != nil:
		return present, &notReady{reason: "CRDNotInstalled", retry: refusedWait, message: "The newest definition of the API could not be installed, and it is tried again: " + told(ctx, err) + "."}, nil
	}
	return nil, nil, fmt.Errorf("install CustomResourceDefinition %s: %w", name, err)
}

// notServed says why a definition that is installed is not served; nil where it is.
func notServed(live *apiextensionsv1.CustomResourceDefinition) *notReady {
	if apihelpers.IsCRDConditionTrue(live, apiextensionsv1.Established) {
		return nil
	}
	if c := apihelpers.FindCRDCondition(live, apiextensionsv1.NamesAccepted); c != nil && c.Status == apiextensionsv1.ConditionFalse {
		return &notReady{reason: "CRDNotEstablished", message: fmt.Sprintf(
			"The CustomResourceDefinition is installed, and not served, as another one of group %s has one of its names: %s. It is served when that one is gone (kubectl get crds).", live.Spec.Group, c.Message)}
	}
	return &notReady{reason: "CRDNotEstablished", message: "The CustomResourceDefinition is installed, and not served yet."}
}

// rewrittenByOthers says that somebody puts another definition in the place of ours each time,
// also while it is ours for a moment; nil for nobody.
func (r *Reconciler) rewrittenByOthers(l *look, key contract.Key) *notReady {
	words, rest := r.manyRewrites(key, "CustomResourceDefinition "+l.binding.Name)
	if words == "" {
		return nil
	}
	l.schema = schemaIs(metav1.ConditionFalse, "ManyWrites", words+".")
	return &notReady{reason: "ManyWrites", retry: rest, message: words + ". Claims go by the definition that there is."}
}

// next is the definition to install in the place of the one that there is, nil
// for none, and what the condition Schema says of it.
func (r *Reconciler) next(ctx context.Context, l *look, live, want *apiextensionsv1.CustomResourceDefinition) (*apiextensionsv1.CustomResourceDefinition, *metav1.Condition, error) {
	upToDate := schemaIs(metav1.ConditionTrue, "UpToDate", "The newest definition of the API is installed.")
	held := live.DeepCopy()
	metav1.SetMetaDataLabel(&held.ObjectMeta, v1alpha1.ManagedByLabel, v1alpha1.ManagedByKonnector)
	unmark(held)
	prepare(&held.Spec)
	next := held.DeepCopy()
	next.Spec = want.Spec
	next.Spec.Versions = append(next.Spec.Versions, stored(held, want)...)
	// same is the definition as it is, with our marks and our status as they should be; nil
	// where it has them.
	same := held
	if equality.Semantic.DeepEqual(held.ObjectMeta, live.ObjectMeta) && compatibility.Same(held.Spec, live.Spec) {
		same = nil
	}
	if compatibility.Same(next.Spec, held.Spec) {
		return same, upToDate, nil
	}
	if l.binding.Spec.SchemaUpdates == v1alpha1.SchemaUpdatesNever {
		return same, schemaIs(metav1.ConditionFalse, "UpdateAvailable",
			"The control plane has published a newer definition of this API. It is not installed, as spec.schemaUpdates is Never: set it to Always to install it."), nil
	}
	if is, was := next.Spec, live.Spec; apihelpers.IsCRDConditionTrue(live, apiextensionsv1.Established) && (is.Names.Kind != was.Names.Kind || is.Scope != was.Scope) {
		return same, schemaIs(metav1.ConditionFalse, "ImmutableChange", fmt.Sprintf(
			"The control plane has published a definition of this API with another kind or scope: it is %s %s, and was %s %s. Kubernetes changes neither of a definition that is installed. Unbind the API and bind it again; to keep the services: kubectl gitbind unbind %s --claims=orphan",
			is.Scope, is.Names.Kind, was.Scope, was.Names.Kind, l.binding.Name)), nil
	}
	breaks, hash := compatibility.Breaks(live, next), compatibility.Hash(next)
	if len(breaks) == 0 || l.binding.Annotations[v1alpha1.ApproveSchemaAnnotation] == hash {
		return next, upToDate, nil
	}
	inUse, err := r.inUse(ctx, l, live)
	if err != nil || !inUse {
		return next, upToDate, err
	}
	return same, schemaIs(metav1.ConditionFalse, "BreakingChange", fmt.Sprintf(
		"Held: the control plane has published a definition of this API with which claims may be invalid, or mean another thing: %s. It is not installed until there are no claims, or a person approves it: kubectl annotate apiservicebinding %s %s=%s --overwrite",
		brief.List(breaks, maxBreaks, "; "), l.binding.Name, v1alpha1.ApproveSchemaAnnotation, hash)), nil
}

func schemaIs(status metav1.ConditionStatus, reason, message string) *metav1.Condition {
	return &metav1.Condition{Type: v1alpha1.ConditionSchema, Status: status, Reason: reason, Message: message}
}

// maxBreaks is how many breaks are named.
const maxBreaks = 10

// stored are the versions in which objects may be stored and which are offered no
// more: the API server refuses to lose them. Nobody can use them.
func stored(live, want *apiextensionsv1.CustomResourceDefinition) []apiextensionsv1.CustomResourceDefinitionVersion {
	offered := map[string]bool{}
	for _, v := range want.Spec.Versions {
		offered[v.Name] = true
	}
	kept := map[string]bool{}
	for _, name := range live.Status.StoredVersions {
		kept[name] = true
	}
	var out []apiextensionsv1.CustomResourceDefinitionVersion
	for _, v := range live.Spec.Versions {
		if kept[v.Name] && !offered[v.Name] {
			v = *v.DeepCopy()
			v.Served, v.Storage = false, false
			out = append(out, v)
		}
	}
	return out
}

// inUse reports whether there may be claims of an API, here or on main.
func (r *Reconciler) inUse(ctx context.Context, l *look, crd *apiextensionsv1.CustomResourceDefinition) (bool, error) {
	for e := range l.view.Main.List(contract.ClaimsPath(l.binding.Name)) {
		if isClaim(e) {
			return true, nil
		}
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kindOf(crd))
	switch err := r.Live.List(ctx, list, client.Limit(1)); {
	case apierrors.IsNotFound(err):
		return false, nil
	case apierrors.IsForbidden(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("list %s: %w", crd.Name, err)
	}
	return len(list.Items) > 0, nil
}

func conflict(want, live *apiextensionsv1.CustomResourceDefinition) *notReady {
	whose := "somebody else's"
	if other := live.Annotations[v1alpha1.ConnectionAnnotation]; other != "" {
		whose = "that of Connection " + other
	}
	return &notReady{reason: "CRDConflict", stop: true, message: fmt.Sprintf(
		"CustomResourceDefinition %s exists and is %s: it is left as it is. To let this binding have it, annotate it: kubectl annotate crd %s %s=%s --overwrite.",
		want.Name, whose, want.Name, v1alpha1.ConnectionAnnotation, want.Annotations[v1alpha1.ConnectionAnnotation])}
}
