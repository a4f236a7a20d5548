package apiservicebinding

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"gitbind.dev/gitbridge/admission"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/brief"
	"gitbind.dev/gitbridge/contract"
	offered "gitbind.dev/gitbridge/policy"
	"gitbind.dev/policies/bound"
)

// The right to change and delete them comes with the API, by name.
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicies,verbs=list;watch;create

// installPolicies makes this cluster's API server judge claims by the policies of the
// offer, and says in l.judged how far it does. Without them the API works: the bridge
// judges by all of them. An error is of what passes by itself.
func (r *Reconciler) installPolicies(ctx context.Context, l *look) error {
	if l.policies == nil {
		return nil
	}
	m := r.compiled.make(l.binding.Name, l.terms.MetadataKeys, *l.policies)
	if m.err != nil {
		// What was installed stays.
		l.judged = judgedBy(metav1.ConditionFalse, "PoliciesInvalid", "The policies of the offer cannot be used in this cluster: "+offered.Told(m.err)+".")
		return nil
	}
	if len(*l.policies) == 0 && meta.FindStatusCondition(l.binding.Status.Conditions, v1alpha1.ConditionPolicies) == nil {
		return nil
	}
	installed, err := r.installedPolicies(ctx, l.binding)
	switch {
	case apierrors.IsForbidden(err):
		l.judged = judgedBy(metav1.ConditionFalse, "Forbidden", "The konnector may not list policies in this cluster, and the control plane alone judges by those of the offer. Install the konnector's rights again (kubectl gitbind connect).")
		return nil
	case err != nil:
		l.judged = judgedBy(metav1.ConditionFalse, "NotInstalled", "The policies of the offer could not be installed in this cluster, and it is tried again: "+told(ctx, err)+".")
		return err
	}
	done := r.installEach(ctx, l.binding, m, installed)
	if !admission.Stale(done.trouble) {
		l.judged = done.condition()
	}
	return done.trouble
}

// installation is what became of the policies of an offer: those that are installed, those
// that are not, with why, and places of earlier ones that stay.
type installation struct {
	names, left, kept []string
	reason            string
	// trouble is what passes by itself; nil for none.
	trouble error
}

// installEach installs each policy that can be, and removes earlier ones from the other places.
func (r *Reconciler) installEach(ctx context.Context, b *v1alpha1.APIServiceBinding, m made, live map[string]*admissionv1.ValidatingAdmissionPolicy) installation {
	done := installation{left: slices.Clone(m.left), reason: "NotAllInstalled"}
	for i, name := range bound.Names(b.Name) {
		if i >= len(m.policies) {
			switch err := r.removePolicy(ctx, live[name]); {
			case isRefused(err):
				done.reason, done.kept = "Forbidden", append(done.kept, name)
			case err != nil:
				done.reason, done.kept, done.trouble = "NotInstalled", append(done.kept, name+": "+told(ctx, err)), errors.Join(done.trouble, err)
			}
			continue
		}
		p := m.policies[i]
		why, words, err := r.installPolicy(ctx, b, live[name], policyFor(b, name, p))
		switch {
		case err != nil:
			done.reason, done.trouble = "NotInstalled", errors.Join(done.trouble, err)
			done.left = append(done.left, p.Name+": it is tried again: "+told(ctx, err))
		case why != "":
			done.reason = why
			done.left = append(done.left, p.Name+": "+words)
		case !slices.Contains(done.names, p.Name):
			done.names = append(done.names, p.Name)
		}
	}
	return done
}

// condition is without a reason where there is nothing to say.
func (i installation) condition() *metav1.Condition {
	message := "This cluster's API server judges claims by " + cmp.Or(strings.Join(i.names, ", "), "none of the offer's policies") + "."
	if len(i.left) > 0 {
		message += " Not by these: " + brief.List(i.left, maxBreaks, "; ") + "."
	}
	if len(i.kept) > 0 {
		message += " It does so by a policy that the offer has no more, and that could not be removed: " + strings.Join(i.kept, ", ") + "."
	}
	switch {
	case len(i.left)+len(i.kept) > 0:
		return judgedBy(metav1.ConditionFalse, i.reason, message)
	case len(i.names) > 0:
		return judgedBy(metav1.ConditionTrue, "Installed", message)
	}
	return &metav1.Condition{}
}

// isRefused reports whether an API server's rights, policies or webhooks are against a write.
func isRefused(err error) bool { return apierrors.IsForbidden(err) || admission.Denied(err) }

// told is why an API server does not do something, for a condition: its words where it refuses,
// and otherwise what stays the same from one try to the next. Each write of a status has the
// binding looked at, at once.
func told(ctx context.Context, err error) string {
	if isRefused(err) {
		return err.Error()
	}
	ctrl.LoggerFrom(ctx).Info("it is tried again", "error", err.Error())
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return fmt.Sprintf("this cluster's API server cannot do it just now (%d %s)", status.Status().Code, status.Status().Reason)
	}
	return "this cluster's API server does not answer"
}

// maxJudged is in bytes. Names and reasons come from the author of the export.
const maxJudged = 2000

func judgedBy(status metav1.ConditionStatus, reason, message string) *metav1.Condition {
	return &metav1.Condition{Type: v1alpha1.ConditionPolicies, Status: status, Reason: reason, Message: brief.CutBytes(message, maxJudged)}
}

// installPolicy installs one policy, or says why not.
func (r *Reconciler) installPolicy(ctx context.Context, b *v1alpha1.APIServiceBinding, live, want *admissionv1.ValidatingAdmissionPolicy) (reason, words string, err error) {
	again := "bind the API again (kubectl gitbind bind) to grant it"
	switch err := r.Live.Get(ctx, client.ObjectKeyFromObject(want), &admissionv1.ValidatingAdmissionPolicyBinding{}); {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return "NotTurnedOn", fmt.Sprintf("there is no ValidatingAdmissionPolicyBinding %s; %s", want.Name, again), nil
	case err != nil:
		return "", "", fmt.Errorf("get ValidatingAdmissionPolicyBinding %s: %w", want.Name, err)
	}
	key := contract.Key{Binding: b.Name, Name: want.Name}
	if live == nil {
		if err = r.Client.Create(ctx, want.DeepCopy()); apierrors.IsAlreadyExists(err) && !admission.Denied(err) {
			live = &admissionv1.ValidatingAdmissionPolicy{}
			err = r.Live.Get(ctx, client.ObjectKeyFromObject(want), live)
		}
	}
	if live != nil && err == nil {
		switch next := live.DeepCopy(); {
		case !isOurs(live, b):
			return "PolicyConflict", fmt.Sprintf("ValidatingAdmissionPolicy %s exists and is somebody else's, and is left as it is", want.Name), nil
		case live.DeletionTimestamp != nil:
			// It is installed again when it is gone.
		default:
			metav1.SetMetaDataLabel(&next.ObjectMeta, v1alpha1.ManagedByLabel, v1alpha1.ManagedByKonnector)
			metav1.SetMetaDataAnnotation(&next.ObjectMeta, v1alpha1.PolicyAnnotation, want.Annotations[v1alpha1.PolicyAnnotation])
			next.OwnerReferences, next.Spec = want.OwnerReferences, want.Spec
			if !equality.Semantic.DeepEqual(live, next) && r.mayRewrite(key, live) {
				if err = r.Client.Update(ctx, next); err == nil {
					r.rewrote(key, live)
				}
			}
		}
	}
	switch {
	// A webhook's no may have the code of any other error.
	case apierrors.IsForbidden(err) && !admission.Denied(err):
		return "Forbidden", "the konnector may not install it; " + again, nil
	case apierrors.IsInvalid(err), apierrors.IsRequestEntityTooLargeError(err), admission.Denied(err):
		return "PolicyRefused", "this cluster's API server refuses it: " + err.Error(), nil
	case err != nil:
		return "", "", fmt.Errorf("install ValidatingAdmissionPolicy %s: %w", want.Name, err)
	}
	if words, _ := r.manyRewrites(key, "ValidatingAdmissionPolicy "+want.Name); words != "" {
		return "ManyWrites", words, nil
	}
	return "", "", nil
}

// policyFor is a policy as it is installed. It goes with the binding, also where the
// konnector may not delete it.
func policyFor(b *v1alpha1.APIServiceBinding, name string, p bound.Policy) *admissionv1.ValidatingAdmissionPolicy {
	return &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Labels:      map[string]string{v1alpha1.ManagedByLabel: v1alpha1.ManagedByKonnector},
			Annotations: map[string]string{v1alpha1.ConnectionAnnotation: b.Spec.Connection, v1alpha1.PolicyAnnotation: p.Name},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1alpha1.GroupVersion.String(), Kind: "APIServiceBinding", Name: b.Name, UID: b.UID,
			}},
		},
		Spec: p.Spec,
	}
}

func isOurs(p *admissionv1.ValidatingAdmissionPolicy, b *v1alpha1.APIServiceBinding) bool {
	return p.Annotations[v1alpha1.ConnectionAnnotation] == b.Spec.Connection
}

// installedPolicies are those at the binding's places that have our label, by name.
func (r *Reconciler) installedPolicies(ctx context.Context, b *v1alpha1.APIServiceBinding) (map[string]*admissionv1.ValidatingAdmissionPolicy, error) {
	var all admissionv1.ValidatingAdmissionPolicyList
	if err := r.Live.List(ctx, &all, client.MatchingLabels{v1alpha1.ManagedByLabel: v1alpha1.ManagedByKonnector}); err != nil {
		return nil, fmt.Errorf("list ValidatingAdmissionPolicies: %w", err)
	}
	out := map[string]*admissionv1.ValidatingAdmissionPolicy{}
	places := bound.Names(b.Name)
	for i := range all.Items {
		if p := &all.Items[i]; slices.Contains(places, p.Name) && isOurs(p, b) {
			out[p.Name] = p
		}
	}
	return out, nil
}

// removePolicy deletes one of ours; none if it is nil.
func (r *Reconciler) removePolicy(ctx context.Context, p *admissionv1.ValidatingAdmissionPolicy) error {
	if p == nil || p.DeletionTimestamp != nil {
		return nil
	}
	err := r.Client.Delete(ctx, p, client.Preconditions{UID: new(p.UID)})
	if err != nil && (!apierrors.IsNotFound(err) || admission.Denied(err)) {
		return fmt.Errorf("delete ValidatingAdmissionPolicy %s: %w", p.Name, err)
	}
	return nil
}

// removePolicies takes back what made this cluster judge. What the konnector may not
// delete goes with the binding, or judges nothing without a policy.
func (r *Reconciler) removePolicies(ctx context.Context, b *v1alpha1.APIServiceBinding) error {
	installed, err := r.installedPolicies(ctx, b)
	if err != nil && !apierrors.IsForbidden(err) {
		return err
	}
	for _, name := range bound.Names(b.Name) {
		if err := r.removePolicy(ctx, installed[name]); err != nil && !isRefused(err) {
			return err
		}
		err := r.Client.Delete(ctx, &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name}})
		if client.IgnoreNotFound(err) != nil && !isRefused(err) {
			return fmt.Errorf("delete ValidatingAdmissionPolicyBinding %s: %w", name, err)
		}
	}
	r.compiled.forget(b.Name)
	return nil
}

// queue is a controller's.
type queue = workqueue.TypedRateLimitingInterface[ctrl.Request]

// watchPolicies looks at a binding again when a policy of it is changed or deleted. It has
// a cache of its own, as controllers wait for all of the manager's: where policies may not
// be watched, APIs work.
func watchPolicies(ctx context.Context, mgr ctrl.Manager, q queue) error {
	policies, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		DefaultTransform:     cache.TransformStripManagedFields(),
		DefaultLabelSelector: labels.SelectorFromSet(labels.Set{v1alpha1.ManagedByLabel: v1alpha1.ManagedByKonnector}),
	})
	if err != nil {
		return err
	}
	go func() { _ = policies.Start(ctx) }() // Its only error is to be started twice.
	owners := func(_ context.Context, p client.Object) (all []ctrl.Request) {
		for _, owner := range p.GetOwnerReferences() {
			all = append(all, ctrl.Request{NamespacedName: client.ObjectKey{Name: owner.Name}})
		}
		return all
	}
	// It tries again where the API server cannot say yet where policies are.
	return source.Kind[client.Object](policies, &admissionv1.ValidatingAdmissionPolicy{}, handler.EnqueueRequestsFromMapFunc(owners)).Start(ctx, q)
}

// compiled are the policies of exports, which are looked at often and change rarely.
type compiled struct {
	mu sync.Mutex
	of map[string]made
}

// made is what the policies of an export come to.
type made struct {
	revision string
	policies []bound.Policy
	left     []string
	err      error
}

func (c *compiled) make(binding string, keys contract.Keys, objects []runtime.RawExtension) made {
	revision := offered.Revision(objects) + strings.Join(keys, " ")
	c.mu.Lock()
	m, ok := c.of[binding]
	c.mu.Unlock()
	if ok && m.revision == revision {
		return m
	}
	m = made{revision: revision}
	// The API server compiles them, too: this refuses what other gates do not know.
	if _, m.err = offered.Compile(objects); m.err == nil && len(objects) > 0 {
		manifests, err := offered.Parse(objects)
		if m.err = err; err == nil {
			plural, group, _ := strings.Cut(binding, ".")
			m.policies, m.left = bound.API{Group: group, Plural: plural, Keys: keys}.Policies(manifests)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[string]made{}
	}
	c.of[binding] = m
	return m
}

func (c *compiled) forget(binding string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.of, binding)
}
