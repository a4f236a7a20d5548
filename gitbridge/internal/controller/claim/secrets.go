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

// isServed reports whether what was found is the claim's object, and is to stay.
func (s *step) isServed(answer *contract.Status) bool {
	switch {
	case s.found == nil, answer.Result == contract.Deleting:
		return false
	case answer.Result == contract.Applied:
		return true
	}
	return s.Live != nil && s.Live.Applied != "" && !s.Live.Terminating
}

// addSecrets says in an answer which Secrets travel with the claim, and gives the files
// of status that change with it. What travels is what the object there says: an edit that is
// refused, or a removal that is held, leaves a service that runs on, and renews its
// credentials. Where that is not the claim's object, or it is not known what shall travel because
// the template is gone, what travels already goes on as it is.
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
	case !s.isServed(answer), s.Held, s.api.Offer == nil:
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
