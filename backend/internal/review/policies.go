package review

import (
	"context"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/policies/evaluator"
)

// denials are what the policies of an offer have against a claim; before is nil for one
// that is new.
func (a *api) denials(ctx context.Context, before, after *contract.Claim) []string {
	if a.policies == nil {
		return nil
	}
	change := evaluator.Change{Resource: a.resource, Object: a.object(after)}
	if before != nil {
		change.OldObject = a.object(before)
	}
	verdict, err := a.policies.Judge(ctx, change)
	if err != nil {
		return nil
	}
	var reasons []string
	for _, d := range verdict.Denials {
		reasons = append(reasons, d.String())
	}
	return reasons
}
