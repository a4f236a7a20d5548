package evaluator

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
)

// Change is one change of one object. Objects are as an API server sees them at
// admission: with the defaults of their schema.
type Change struct {
	Resource schema.GroupVersionResource
	// Object is nil for a delete, OldObject for a new one. They are not changed.
	Object, OldObject *unstructured.Unstructured
}

// Verdict is what policies say of a change.
type Verdict struct {
	// Denials are by policy and binding, each with its first reason. An API server
	// tells one of them.
	Denials []Denial
	// Warnings are as an API server gives them to its client, none twice.
	Warnings []string
	// Audit are the annotations that an API server would add to its audit event.
	Audit map[string]string
}

// Allowed says that nothing is against the change.
func (v Verdict) Allowed() bool { return len(v.Denials) == 0 }

// Denial is why one binding of a policy is against a change.
type Denial struct {
	Policy string
	// Binding is empty when the policy itself is at fault.
	Binding string
	Message string
	Reason  metav1.StatusReason
	// Field is the first one of the claim that the failed expression asks for, as
	// "spec.plan"; empty for none.
	Field string
}

// String is the sentence in which an API server says it.
func (d Denial) String() string {
	return fmt.Sprintf("%s '%s' with binding '%s' denied request: %s", policyKind, d.Policy, d.Binding, d.Message)
}

// Judge evaluates a change by the rule of a ratchet: a delete, and an object whose spec,
// labels and annotations stay as they were, are never denied.
func (s *Set) Judge(ctx context.Context, c Change) (Verdict, error) {
	if c.Object == nil || c.OldObject != nil && same(c.Object, c.OldObject) {
		return Verdict{}, nil
	}
	return s.Evaluate(ctx, c)
}

func same(a, b *unstructured.Unstructured) bool {
	return reflect.DeepEqual(a.Object["spec"], b.Object["spec"]) &&
		maps.Equal(a.GetLabels(), b.GetLabels()) && maps.Equal(a.GetAnnotations(), b.GetAnnotations())
}

// Evaluate gives the verdict of an API server with the same policies, bindings and
// parameters. Its error is ctx's.
func (s *Set) Evaluate(ctx context.Context, c Change) (Verdict, error) {
	if c.Object == nil && c.OldObject == nil {
		return Verdict{}, fmt.Errorf("neither object nor old object")
	}
	a := c.attributes()
	r := &recorder{verdict: Verdict{Audit: map[string]string{}}}
	for _, p := range s.policies {
		if !p.match.matches(a) {
			continue
		}
		r.audits = map[string][]string{}
		for _, b := range p.bindings {
			if b.match.matches(a) {
				r.binding(ctx, p, b, a)
			}
		}
		for key, values := range r.audits {
			r.verdict.Audit[p.Name+"/"+key] = strings.Join(values, ", ")
		}
	}
	return r.verdict, ctx.Err()
}

// attributes are those of the request that would make the change.
func (c Change) attributes() *admission.VersionedAttributes {
	operation, of := admission.Update, c.Object
	switch {
	case c.Object == nil:
		operation, of = admission.Delete, c.OldObject
	case c.OldObject == nil:
		operation = admission.Create
	}
	// A nil pointer in an interface would be no nil.
	var object, old runtime.Object
	if c.Object != nil {
		object = c.Object
	}
	if c.OldObject != nil {
		old = c.OldObject
	}
	gvk := of.GroupVersionKind()
	return &admission.VersionedAttributes{
		Attributes: admission.NewAttributesRecord(object, old, gvk, of.GetNamespace(), of.GetName(), c.Resource, "",
			operation, nil, false, nil),
		VersionedObject: object, VersionedOldObject: old, VersionedKind: gvk,
	}
}

// recorder gathers a verdict as the API server's dispatcher does.
type recorder struct {
	verdict Verdict
	// audits are the values of one policy's annotations, over its bindings.
	audits map[string][]string
}

func (r *recorder) binding(ctx context.Context, p *policy, b binding, a *admission.VersionedAttributes) {
	params, err := b.params.of(a.GetNamespace())
	if err != nil {
		if *p.Spec.FailurePolicy == admissionv1.Fail {
			r.deny(p, b, decision{message: "failed to configure binding: " + err.Error()})
		}
		return
	}
	denied := false
	for _, param := range params {
		result := p.run(ctx, a, param)
		for i, d := range result.decisions {
			if !d.denied {
				continue
			}
			for _, action := range b.Spec.ValidationActions {
				switch action {
				case admissionv1.Deny:
					if !denied {
						r.deny(p, b, d)
					}
					denied = true
				case admissionv1.Warn:
					r.warn(fmt.Sprintf("Validation failed for %s '%s' with binding '%s': %s", policyKind, p.Name, b.Name, d.message))
				case admissionv1.Audit:
					r.verdict.failure(b, i, d.message)
				}
			}
		}
		for _, audit := range result.audits {
			switch {
			case audit.err != "":
				if !denied {
					r.deny(p, b, decision{message: audit.err})
				}
				denied = true
			case !slices.Contains(r.audits[audit.key], audit.value):
				r.audits[audit.key] = append(r.audits[audit.key], audit.value)
			}
		}
	}
}

func (r *recorder) deny(p *policy, b binding, d decision) {
	reason := d.reason
	if reason == "" {
		reason = metav1.StatusReasonInvalid
	}
	r.verdict.Denials = append(r.verdict.Denials, Denial{Policy: p.Name, Binding: b.Name, Message: d.message, Reason: reason, Field: d.field})
}

// warn leaves out what was said already, as an API server does.
func (r *recorder) warn(text string) {
	if !slices.Contains(r.verdict.Warnings, text) {
		r.verdict.Warnings = append(r.verdict.Warnings, text)
	}
}

const failureKey = "validation.policy.admission.k8s.io/validation_failure"

// failure notes a failed validation; of several, an API server keeps the first.
func (v *Verdict) failure(b binding, index int, message string) {
	if _, ok := v.Audit[failureKey]; ok {
		return
	}
	// Names and texts can always be marshalled.
	data, _ := json.Marshal([]map[string]any{{
		"message": message, "policy": b.Spec.PolicyName, "binding": b.Name, "expressionIndex": index, "validationActions": b.Spec.ValidationActions,
	}})
	v.Audit[failureKey] = string(data)
}
