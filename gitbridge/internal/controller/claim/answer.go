package claim

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gitbind.dev/gitbridge/brief"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/decision"
	"gitbind.dev/gitbridge/internal/session"
	"gitbind.dev/gitbridge/internal/statusbranch"
	"gitbind.dev/gitbridge/store"
)

// answer writes a path's ClaimStatus and the claim's Secrets, if they say something
// else than the present ones, and returns how long to wait if they may not be written
// yet.
func (c *Controller) answer(ctx context.Context, s *step, o outcome) (time.Duration, error) {
	o.answer = session.Bounded(o.answer)
	nameReady(s, o.answer)
	c.count(s, o.answer)
	// Trouble with Secrets and inputs does not keep the answer waiting.
	beside, trouble := c.addSecrets(ctx, s, o.answer)
	trouble = errors.Join(trouble, c.addInputs(ctx, s, o.answer))
	wait, err := c.write(ctx, s, o, beside)
	return wait, errors.Join(err, trouble)
}

// nameReady says in an answer which condition of its status says that the service can be
// used. Where the template is gone that stays as it was.
func nameReady(s *step, answer *contract.Status) {
	switch {
	case answer == nil || !s.IsClaim:
	case len(answer.Status) == 0:
		answer.ReadyCondition = ""
	case s.api.Offer != nil:
		answer.ReadyCondition = s.api.Ready
	case s.Present != nil:
		answer.ReadyCondition = s.Present.ReadyCondition
	}
}

func (c *Controller) write(ctx context.Context, s *step, o outcome, beside []statusbranch.File) (time.Duration, error) {
	answer := o.answer
	change := statusbranch.Change{Path: contract.StatusPath(s.Path), Was: &s.was, Beside: beside, Subject: subject(s, answer)}
	if !s.Held {
		change.Answers, change.As = s.Path, s.view.Generation
	}
	same := c.Session.Answers.Say(s.Path, answer)
	if answer != nil && (!same || len(beside) > 0) {
		var err error
		if change.Data, err = encode(answer); err != nil {
			return 0, err
		}
		change.Since = answer.Since
	}
	same = same || c.Session.Status.Says(change.Path, change.Data)
	if same && len(beside) == 0 {
		if change.Answers != "" {
			c.Session.Status.Done(s.Path, s.view.Generation)
			c.Session.Answered(s.Path, answer)
		}
		return 0, nil
	}
	if same {
		change.Subject = "status: Secrets of " + s.Key.String()
	}
	if onlyStatus(s.Present, answer) {
		if change.Answers != "" && !c.Session.Status.IsDoubtful(change.Path) {
			c.Session.Status.Done(s.Path, s.view.Generation)
		}
		if wait := c.cache.spend(s.Path, c.Now()); wait > 0 {
			return wait, nil
		}
	}
	if o.inBackground {
		return 0, c.answerInBackground(ctx, s, change, answer)
	}
	if err := c.Session.Answer(ctx, s.view, change); err != nil {
		return 0, err
	}
	if !s.changed.IsZero() && onlyStatus(s.Present, answer) {
		c.Metrics.StatusPushed(time.Since(s.changed))
	}
	c.Session.Answered(s.Path, answer)
	return 0, nil
}

// count keeps the numbers of claims by what they are answered with.
func (c *Controller) count(s *step, answer *contract.Status) {
	if !s.IsClaim {
		return
	}
	// What a repository calls a binding need not be one.
	binding := "other"
	if s.api.Access != decision.NotBound {
		binding = s.Key.Binding
	}
	switch {
	case answer == nil || answer.Result == contract.Gone:
		c.Metrics.Answered(s.Path, binding, "", "")
	case answer.Reason == contract.Contested:
		c.Metrics.Answered(s.Path, binding, string(contract.Contested), string(contract.Contested))
	case answer.Reason != "":
		c.Metrics.Answered(s.Path, binding, string(answer.Result), string(answer.Reason))
	case answer.Result == contract.Held, answer.Result == contract.Lost:
		c.Metrics.Answered(s.Path, binding, string(answer.Result), string(answer.Result))
	default:
		c.Metrics.Answered(s.Path, binding, string(answer.Result), "")
	}
}

// encode leaves out what is too large for a file: the status, or what the template changed.
func encode(answer *contract.Status) ([]byte, error) {
	data, err := contract.EncodeStatus(answer)
	small := *answer
	for _, try := range []struct {
		status, effective map[string]any
		left              string
	}{
		{nil, answer.Effective, "its status is"},
		{answer.Status, nil, "what the platform's template sets is"},
		{nil, nil, "its status and what the platform's template sets are"},
	} {
		if err != nil || len(data) <= store.MaxFile {
			break
		}
		small.Status, small.Effective, small.Message = try.status, try.effective, try.left+" too large to travel"
		data, err = contract.EncodeStatus(&small)
	}
	return data, err
}

// onlyStatus reports whether an answer differs from the present one in nothing
// but what the control plane's object says of itself.
func onlyStatus(present, answer *contract.Status) bool {
	if present == nil || answer == nil {
		return false
	}
	a, b := *present, *answer
	a.Status, b.Status = nil, nil
	a.APIVersion, a.Kind = b.APIVersion, b.Kind
	return reflect.DeepEqual(a, b)
}

// maxSubjectPath bounds a path in the history of status, in characters: one that is no claim's
// may have any length.
const maxSubjectPath = 200

// subject is the line about an answer in the history of status.
func subject(s *step, answer *contract.Status) string {
	what := brief.Cut(s.Path, maxSubjectPath)
	if s.IsClaim {
		what = s.Key.String()
	}
	switch {
	case answer == nil:
		return "status: nothing more of " + what
	case !onlyStatus(s.Present, answer):
		return fmt.Sprintf("status: %s %s", answer.Result, what)
	case ready(answer) != "" && ready(answer) != ready(s.Present):
		return fmt.Sprintf("status: Ready=%s %s", ready(answer), what)
	default:
		return "status: update " + what
	}
}

// ready is the status of the condition that says whether the service can be used, "" if
// there is none.
func ready(answer *contract.Status) string {
	conditions, _, _ := unstructured.NestedSlice(answer.Status, "conditions")
	for _, c := range conditions {
		if m, ok := c.(map[string]any); ok && m["type"] == answer.ReadyType() {
			status, _ := m["status"].(string)
			return status
		}
	}
	return ""
}
