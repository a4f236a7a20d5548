package connection

import (
	"context"
	"net/http"
	"net/url"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/konnector/internal/agent/backend"
	"gitbind.dev/konnector/internal/agent/decision"
	"gitbind.dev/konnector/internal/agent/repository"
)

// verdicts are the states of a proposed change as the backend names them.
var verdicts = map[restapi.ProposalState]decision.VerdictState{
	restapi.ProposalOpen:     decision.VerdictOpen,
	restapi.ProposalRejected: decision.VerdictRejected,
	restapi.ProposalMerged:   decision.VerdictMerged,
	restapi.ProposalClosed:   decision.VerdictClosed,
	restapi.ProposalLost:     decision.VerdictLost,
}

// verdict asks a Connection's backend what became of what was proposed.
func (r *Reconciler) verdict(conn *v1alpha1.Connection, credentials repository.Credentials) func(ctx context.Context, branch, commit string) (decision.Verdict, error) {
	return func(ctx context.Context, branch, commit string) (decision.Verdict, error) {
		b, done, err := backend.Of(conn, r.Guard)
		if err != nil {
			return decision.Verdict{}, err
		}
		defer done()
		user, password, err := credentials(ctx)
		if err != nil {
			return decision.Verdict{}, err
		}
		var p restapi.Proposal
		what := "proposal?" + url.Values{"branch": {branch}, "commit": {commit}}.Encode()
		if err := b.Ask(ctx, http.MethodGet, what, user, password, nil, &p); err != nil {
			return decision.Verdict{}, err
		}
		state, ok := verdicts[p.State]
		if !ok {
			return decision.Verdict{}, backend.ErrUnsupported
		}
		return decision.Verdict{State: state, By: p.By, Message: p.Message, Page: p.Page}, nil
	}
}
