package apiservicebinding

import (
	"cmp"
	"context"
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
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	offered "gitbind.dev/gitbridge/policy"
	"gitbind.dev/policies/bound"
)

// The right to change and delete them comes with the API, by name.
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicies,verbs=list;watch;create

// installPolicies makes this cluster's API server judge claims by the policies of the
// offer, and says in l.judged how far it does. Without them the API works: the bridge
// judges by all of them.
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
		return err
	}
	left, reason := slices.Clone(m.left), "NotAllInstalled"
	var names, kept []string
	for i, name := range bound.Names(l.binding.Name) {
		live := installed[name]
		if i >= len(m.policies) {
			if err := r.removePolicy(ctx, live); apierrors.IsForbidden(err) {
				kept = append(kept, name)
			} else if err != nil {
				return err
			}
			continue
		}
		p := m.policies[i]
		why, words, err := r.installPolicy(ctx, l.binding, live, policyFor(l.binding, name, p))
		switch {
		case err != nil:
			return err
		case why != "":
			reason = why
			left = append(left, p.Name+": "+words)
		case !slices.Contains(names, p.Name):
			names = append(names, p.Name)
		}
	}
	l.judged = judged(names, left, kept, reason)
	return nil
}

// judged is the condition for policies that are installed, those that are not, with why,
// and places of earlier ones that stay.
func judged(names, left, kept []string, reason string) *metav1.Condition {
	by := "This cluster's API server judges claims by " + cmp.Or(strings.Join(names, ", "), "none of the offer's policies") + "."
	switch {
	case len(kept) > 0:
		return judgedBy(metav1.ConditionFalse, "Forbidden", by+" It does so by a policy that the offer has no more, and that the konnector may not remove: "+strings.Join(kept, ", ")+".")
	case len(left) > 0:
		return judgedBy(metav1.ConditionFalse, reason, by+" Not by these: "+shorten(left)+".")
	case len(names) > 0:
		return judgedBy(metav1.ConditionTrue, "Installed", by)
	}
	return &metav1.Condition{}
}

// maxJudged is in bytes. Names and reasons are of whoever wrote the export.
const maxJudged = 2000

func judgedBy(status metav1.ConditionStatus, reason, message string) *metav1.Condition {
	if len(message) > maxJudged {
		message = strings.ToValidUTF8(message[:maxJudged], "") + " …"
	}
	return &metav1.Condition{Type: v1alpha1.ConditionPolicies, Status: status, Reason: reason, Message: message}
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
	if live == nil {
		if err = r.Client.Create(ctx, want.DeepCopy()); apierrors.IsAlreadyExists(err) {
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
			if !equality.Semantic.DeepEqual(live, next) {
				err = r.Client.Update(ctx, next)
			}
		}
	}
	switch {
	case apierrors.IsForbidden(err):
		return "Forbidden", "the konnector may not install it; " + again, nil
	case apierrors.IsInvalid(err), apierrors.IsRequestEntityTooLargeError(err):
		return "PolicyRefused", "this cluster's API server refuses it: " + err.Error(), nil
	case err != nil:
		return "", "", fmt.Errorf("install ValidatingAdmissionPolicy %s: %w", want.Name, err)
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
	if client.IgnoreNotFound(err) != nil {
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
		if err := r.removePolicy(ctx, installed[name]); err != nil && !apierrors.IsForbidden(err) {
			return err
		}
		err := r.Client.Delete(ctx, &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name}})
		if client.IgnoreNotFound(err) != nil && !apierrors.IsForbidden(err) {
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
	informer, err := policies.GetInformer(ctx, &admissionv1.ValidatingAdmissionPolicy{}, cache.BlockUntilSynced(false))
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Policies are not watched")
		return nil
	}
	changed := func(o any) {
		if gone, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
			o = gone.Obj
		}
		if p, ok := o.(*admissionv1.ValidatingAdmissionPolicy); ok {
			for _, owner := range p.OwnerReferences {
				q.Add(ctrl.Request{NamespacedName: client.ObjectKey{Name: owner.Name}})
			}
		}
	}
	if _, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: changed, UpdateFunc: func(_, o any) { changed(o) }, DeleteFunc: changed,
	}); err != nil {
		return err
	}
	go func() { _ = policies.Start(ctx) }() // Its only error is to be started twice.
	return nil
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
