package claim

import (
	"context"
	"strings"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/decision"
)

// correct applies a file again to an object in which somebody on the control
// plane changed, or took away, what was applied.
func (c *Controller) correct(ctx context.Context, s *step) (outcome, error) {
	if wait := c.fights.Wait(s.Path, c.Now()); wait > 0 {
		return outcome{answer: s.Applied(s.Live, s.File.Note), later: wait}, nil
	}
	// What watching shows has no list of fields, and may be old.
	d, err := c.ask(ctx, s)
	switch {
	case err != nil:
		return outcome{}, err
	case d.Effect != decision.Correct:
		return outcome{}, errStale
	}
	change, err := s.api.Fields.Changes(s.object, s.found)
	if err != nil {
		return outcome{}, err
	}
	o, err := c.apply(ctx, s)
	if err != nil || o.answer == nil || o.answer.Result != contract.Applied || len(change.Fields) == 0 {
		return o, err
	}
	c.Log.Info("What was changed on the control plane is set back", "cluster", c.Session.Cluster.ID, "path", s.Path,
		"fields", strings.Join(change.Fields, ", "), "by", strings.Join(change.Managers, ", "))
	c.Metrics.Corrected(s.Key.Binding)
	c.fights.Corrected(s.Path, change, c.Now())
	if words, rest := c.fights.Words(s.Path, c.Now()); words != "" {
		o.answer.Reason, o.answer.Message, o.later = contract.Contested, words, rest
	}
	return o, nil
}
