package claim

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/decision"
	"gitbind.dev/policies/evaluator"
)

// isJudged tells whether the policies of the offer have a say on a file: on what is new
// or changed, and neither on what was applied already nor on what is set back.
func (s *step) isJudged() bool {
	if s.api.Policies == nil {
		return false
	}
	return s.Live == nil || !s.isUnchanged() && s.Live.Applied != s.File.Applied
}

// isUnchanged tells whether the file is the one that was applied.
func (s *step) isUnchanged() bool {
	p := s.Present
	return p != nil && p.Result == contract.Applied && p.Answers.Blob == s.File.Blob
}

// denied judges a claim by the policies of its offer, and gives the answer to its author,
// nil where nothing is against it. What is there is s.found.
func (c *Controller) denied(ctx context.Context, s *step) (*contract.Status, error) {
	change := evaluator.Change{Resource: s.api.Resource, Object: s.asClaim(s.object)}
	s.api.Schema.Default(change.Object)
	if s.found != nil {
		change.OldObject = s.asClaim(s.found)
	}
	verdict, err := s.api.Policies.Judge(ctx, change)
	if err != nil || verdict.Allowed() {
		return nil, err
	}
	var reasons []string
	for _, d := range verdict.Denials[:min(len(verdict.Denials), maxProblems)] {
		reasons = append(reasons, d.String())
	}
	reason := strings.Join(reasons, "; ")
	if len(s.patched) > 0 {
		reason += fmt.Sprintf(" (the platform's template %s has a part in it)", s.api.Template.Name())
	}
	at := slices.IndexFunc(verdict.Denials, func(d evaluator.Denial) bool { return d.Field != "" })
	field := ""
	if at >= 0 {
		field = verdict.Denials[at].Field
	}
	return s.Refused(contract.Denied, "", s.at(field, reason)), nil
}

// asClaim is an object as the app cluster's API server would see it: in the claim's own
// namespace, with the labels and annotations that travel, and without what is Crossplane's.
func (s *step) asClaim(u *unstructured.Unstructured) *unstructured.Unstructured {
	claim := s.api.Keys.Of(contract.FromObject(u))
	claim.Namespace = s.Key.Namespace
	s.api.Shape.Strip(claim.Spec)
	out := claim.Object()
	if status, ok := u.Object["status"]; ok {
		out.Object["status"] = status
	}
	return out
}

// judgePolicies decides on what is there now: the verdict may depend on it.
func (c *Controller) judgePolicies(ctx context.Context, s *step) (outcome, bool, error) {
	if !s.isJudged() {
		return outcome{}, false, nil
	}
	if !s.Certain {
		d, err := c.ask(ctx, s)
		switch {
		case err != nil:
			return outcome{}, true, err
		case isForeign(d.Answer):
			return outcome{answer: d.Answer, later: reconsiderForeign}, true, nil
		case d.Effect != decision.Apply:
			return outcome{}, true, errStale
		case !s.isJudged():
			return outcome{}, false, nil
		}
	}
	answer, err := c.denied(ctx, s)
	return outcome{answer: answer}, answer != nil || err != nil, err
}
