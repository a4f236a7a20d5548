package claim

import (
	"context"
	"fmt"
	"time"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/secrets"
	"gitbind.dev/gitbridge/internal/statusbranch"
)

func (c *Controller) beginSecrets(ctx context.Context) {
	o := c.Secrets
	o.Cluster, o.Now = c.Session.Cluster.ID, c.Now
	o.Rights, o.NoRight = c.namespaces.letReadSecrets, c.namespaces.mayNotReadSecrets
	o.Changed = func(path string) { c.queue.Enqueue(path, true) }
	c.sealer = secrets.NewSealer(ctx, o)
}

// lookAgain is how long until a Secret is looked at again of which nobody tells when it
// may travel.
const lookAgain = time.Minute

// addSecrets says in an answer which Secrets travel with the claim, and gives the files
// of status that change with it. As long as a claim is not applied as its file says, or it is
// not known what shall travel because its template is gone, what travels already goes on as
// it is.
func (c *Controller) addSecrets(ctx context.Context, s *step, answer *contract.Status) ([]statusbranch.File, error) {
	claim := secrets.Claim{Key: s.Key, Object: s.found}
	if s.Present != nil {
		claim.Present, claim.Withheld = s.Present.Secrets, s.Present.Withheld
	}
	if answer != nil {
		claim.UID = answer.UID
	}
	status := c.Session.Status.Snapshot()
	var r secrets.Result
	var err error
	switch {
	case !s.IsClaim:
		return nil, nil
	case answer == nil, answer.Result == contract.Gone:
		r, err = c.sealer.None(ctx, claim, c.Session.Cluster.ClaimNamespace(s.Key.Namespace), status)
	case answer.Result != contract.Applied, s.found == nil, s.Held, s.api.Offer == nil:
		r = secrets.Result{Secrets: claim.Present, Withheld: claim.Withheld}
	default:
		claim.Shape, claim.Offered = s.api.Shape, v1alpha1.DirectionDown.Of(s.api.PermissionClaims)
		r, err = c.sealer.Seal(ctx, claim, status)
	}
	if answer != nil {
		answer.Secrets, answer.Withheld = r.Secrets, r.Withheld
	}
	if r.Again {
		c.queue.AddAfter(Request{Path: s.Path}, lookAgain)
	}
	if err != nil {
		return r.Files, fmt.Errorf("find the Secrets of %s: %w", s.Key, err)
	}
	return r.Files, nil
}
