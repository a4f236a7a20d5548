package evaluator

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/cel-go/common/types"
	admissionapi "k8s.io/api/admission/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// This file is what k8s.io/apiserver/pkg/admission/plugin/policy/validating does with
// the results of expressions, in its order and words.

// result is what a policy says of one object with one parameter.
type result struct {
	decisions []decision // one for each validation
	audits    []annotation
}

type decision struct {
	denied  bool
	message string
	reason  metav1.StatusReason
	field   string
}

type annotation struct {
	key, value string
	// err denies the request.
	err string
}

// maxAuditValue is in bytes.
const maxAuditValue = 10 * 1024

// run runs all expressions of a policy, and gives what follows from their results.
func (p *policy) run(ctx context.Context, a *admission.VersionedAttributes, param runtime.Object) result {
	fail := *p.Spec.FailurePolicy == admissionv1.Fail
	failed := func(err error) result { return result{decisions: []decision{{denied: fail, message: err.Error()}}} }
	if p.conditions != nil {
		m := p.conditions.Match(ctx, a, param, nobody)
		if m.Error != nil {
			return failed(m.Error)
		}
		if !m.Matches {
			return result{}
		}
	}
	request := plugincel.CreateAdmissionRequest(a.Attributes, metav1.GroupVersionResource(a.GetResource()), metav1.GroupVersionKind(a.VersionedKind))
	bindings := plugincel.OptionalVariableBindings{VersionedParams: param, Authorizer: nobody}
	results, budget, err := p.validations.ForInput(ctx, a, request, bindings, nil, celconfig.RuntimeCELCostBudget)
	if err != nil {
		return failed(err)
	}
	messages, _, messageErr := p.messages.ForInput(ctx, a, request, plugincel.OptionalVariableBindings{VersionedParams: param}, nil, budget)
	var out result
	for i, r := range results {
		var message plugincel.EvaluationResult
		if i < len(messages) {
			message = messages[i]
		}
		d := p.decide(i, r, message, messageErr)
		d.field = p.fields[i]
		out.decisions = append(out.decisions, d)
	}
	if out.audits, err = p.annotations(ctx, a, request, param); err != nil {
		return failed(err)
	}
	return out
}

// nobody is in the place of an authorizer, which no expression names.
var nobody = authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorizer.DecisionNoOpinion, "", nil
})

// decide is about one validation.
func (p *policy) decide(i int, r, message plugincel.EvaluationResult, messageErr error) decision {
	fail := *p.Spec.FailurePolicy == admissionv1.Fail
	switch {
	case r.Error != nil:
		return decision{denied: fail, message: r.Error.Error()}
	case errors.Is(messageErr, apiservercel.ErrInternal), errors.Is(messageErr, apiservercel.ErrOutOfBudget):
		return decision{denied: fail, message: fmt.Sprintf("failed messageExpression: %s", messageErr)}
	case r.EvalResult == types.True:
		return decision{}
	}
	v := p.Spec.Validations[i]
	d := decision{denied: true, reason: metav1.StatusReasonInvalid, message: spoken(message)}
	if v.Reason != nil {
		d.reason = *v.Reason
	}
	if d.message == "" {
		d.message = strings.TrimSpace(v.Message)
	}
	if d.message == "" {
		d.message = "failed expression: " + strings.TrimSpace(v.Expression)
	}
	return d
}

// spoken is what a messageExpression gives, if it can be shown.
func spoken(r plugincel.EvaluationResult) string {
	if r.Error != nil || r.EvalResult == nil {
		return ""
	}
	s, _ := r.EvalResult.Value().(string)
	s = strings.TrimSpace(s)
	if len(s) > celconfig.MaxEvaluatedMessageExpressionSizeBytes || strings.Contains(s, "\n") {
		return ""
	}
	return s
}

// annotations are those of the audit event that the policy asks for.
func (p *policy) annotations(ctx context.Context, a *admission.VersionedAttributes, request *admissionapi.AdmissionRequest, param runtime.Object) ([]annotation, error) {
	if len(p.Spec.AuditAnnotations) == 0 {
		return nil, nil
	}
	results, _, err := p.audits.ForInput(ctx, a, request, plugincel.OptionalVariableBindings{VersionedParams: param}, nil, celconfig.RuntimeCELCostBudget)
	if err != nil {
		return nil, err
	}
	var out []annotation
	for i, r := range results {
		key := p.Spec.AuditAnnotations[i].Key
		if r.Error != nil {
			if *p.Spec.FailurePolicy == admissionv1.Fail {
				out = append(out, annotation{key: key, err: r.Error.Error()})
			}
			continue
		}
		// It is a string or null, which the compiler saw to.
		if s, ok := r.EvalResult.Value().(string); ok {
			if s = strings.TrimSpace(s); s != "" {
				out = append(out, annotation{key: key, value: s[:min(len(s), maxAuditValue)]})
			}
		}
	}
	return out, nil
}
