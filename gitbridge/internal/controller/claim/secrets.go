package claim

import (
	"context"
	"fmt"
	"time"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/secrets"
	"gitbind.dev/gitbridge/internal/statusbranch"
)

func (c *Controller) beginSecrets(ctx context.Context) {
	o := c.Secrets
	o.Cluster, o.Now = c.Session.Cluster.ID, c.Now
	o.Rights = c.namespaces.letReadSecrets
	o.Changed = func(path string) { c.queue.Enqueue(path, true) }
	c.sealer = secrets.NewSealer(ctx, o)
}

// lookForFree is how long until a Secret that travels with another claim is looked at
// again.
const lookForFree = time.Minute

// addSecrets says in an answer which Secrets travel with the claim, and gives the files
// of status that change with it. As long as a claim is not applied as its file says,
// what travels already goes on as it is.
func (c *Controller) addSecrets(ctx context.Context, s *step, answer *contract.Status) ([]statusbranch.File, error) {
	var present []string
	var withheld map[string]string
	if s.Present != nil {
		present, withheld = s.Present.Secrets, s.Present.Withheld
	}
	status := c.Session.Status.Snapshot()
	switch {
	case !s.IsClaim:
		return nil, nil
	case answer == nil, answer.Result == contract.Gone:
		files := c.sealer.None(s.Key, c.Session.Cluster.ClaimNamespace(s.Key.Namespace), present, status).Files
		if answer != nil {
			answer.Secrets, answer.Withheld = nil, nil
		}
		return files, nil
	case answer.Result != contract.Applied, s.found == nil, s.Held:
		answer.Secrets, answer.Withheld = present, withheld
		return nil, nil
	}
	r, err := c.sealer.Seal(ctx, secrets.Claim{
		Key: s.Key, UID: answer.UID, Object: s.found, Shape: s.api.Shape, Offered: s.api.Secrets, Present: present, Withheld: withheld,
	}, status)
	answer.Secrets, answer.Withheld = r.Names, r.Withheld
	if r.Again {
		c.queue.AddAfter(Request{Path: s.Path}, lookForFree)
	}
	if err != nil {
		return r.Files, fmt.Errorf("find the Secrets of %s: %w", s.Key, err)
	}
	return r.Files, nil
}
