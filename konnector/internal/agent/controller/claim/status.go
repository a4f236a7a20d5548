package claim

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/konnector/internal/agent/decision"
)

// Types of our own conditions, in status.gitbind.conditions.
const (
	conditionCommitted = "Committed"
	conditionApplied   = "Applied"
	conditionReady     = "Ready"
	conditionHeld      = "Held"
	conditionConflict  = "Conflict"
	conditionSecrets   = "Secrets"
	conditionInputs    = "Inputs"
	// conditionReview is there where changes are reviewed, or one was proposed.
	conditionReview = "AwaitingReview"
)

// condition is one of status.gitbind.conditions. It has no time, so that it
// changes only with what it says.
type condition struct {
	kind, status, reason, message string
}

func (c condition) object(generation int64) map[string]any {
	return map[string]any{
		"type": c.kind, "status": c.status, "reason": c.reason, "message": c.message,
		"observedGeneration": generation,
	}
}

// report writes the object's status, if it says anything new. The error is
// errMoved when the object is not what was looked at any more.
func (r *reconciler) report(ctx context.Context, l *look, trouble error) error {
	if !l.statusDiffers(trouble) {
		return nil
	}
	u := l.object.DeepCopy()
	if l.reduced != nil {
		// The API server takes nothing but the status, but who admits it may look
		// at the spec.
		l.base.Claim.WriteTo(u, l.api.schema.Keys())
	}
	u.Object["status"] = l.status(trouble)
	r.statuses.Spend(l.key, 1, time.Now())
	err := r.client.Status().Update(ctx, u, fieldOwner)
	if apierrors.IsInvalid(err) && l.reduced != nil {
		// What was there before is kept, and only the object has it.
		return errIncomplete
	}
	if apierrors.IsInvalid(err) {
		// What the provider says does not fit the schema here. What we have to
		// say must not be lost over that.
		ctrl.LoggerFrom(ctx).Info("status refused", "claim", l.key.String(), "error", err.Error())
		kept := maps.Clone(objectOf(l.object.Object["status"]))
		if kept == nil {
			kept = map[string]any{}
		}
		kept["gitbind"] = objectOf(u.Object["status"])["gitbind"]
		if sameJSON(kept, l.object.Object["status"]) {
			return nil
		}
		u = l.object.DeepCopy()
		u.Object["status"] = kept
		err = r.client.Status().Update(ctx, u, fieldOwner)
	}
	if err != nil {
		return fmt.Errorf("update status of %s: %w", l.key, moved(err))
	}
	r.tell(l, trouble)
	return nil
}

// statusDiffers reports whether the object's status is to be written. One that
// a person has released is not ours any more, and in a namespace that is gone nothing
// can be written.
func (l *look) statusDiffers(trouble error) bool {
	if l.object == nil || l.facts.NamespaceMissing || l.facts.Terminating && !l.facts.Finalizer {
		return false
	}
	status := l.status(trouble)
	if l.reduced != nil {
		data, err := json.Marshal(status)
		return err != nil || sha256.Sum256(data) != l.reduced.statusDigest
	}
	return !sameJSON(status, l.object.Object["status"])
}

// sameJSON compares as JSON, where 1 and 1.0 are one number.
func sameJSON(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

func objectOf(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

// status is what the object's status should be: the provider's as it is, and
// ours beside it.
func (l *look) status(trouble error) map[string]any {
	var out map[string]any
	switch {
	case l.view.StatusReplaced != "":
		// What the control plane said last.
		out = maps.Clone(objectOf(l.object.Object["status"]))
	case l.answer != nil:
		out = maps.Clone(l.answer.Status)
	}
	if out == nil {
		out = map[string]any{}
	}
	committed, applied, held, conflict := committedCondition(l, trouble), appliedCondition(l), heldCondition(l), conflictCondition(l)
	ready := readyCondition(out, l.answer.ReadyType())
	ours := map[string]any{
		"uid":     string(l.object.GetUID()),
		"message": summary(held, committed, conflict, applied, l.inputs.condition, l.secrets.condition, ready),
	}
	if h := toDecide(l); h != nil {
		ours["hold"] = h
	}
	if l.admitted != "" {
		ours["taken"] = l.admitted
	}
	if l.facts.BaseCommit != "" {
		ours["commit"] = l.facts.BaseCommit
	}
	var conditions []any
	for _, c := range []condition{committed, applied, ready, held, conflict} {
		conditions = append(conditions, c.object(l.object.GetGeneration()))
	}
	if c := reviewCondition(l); c != nil {
		conditions = append(conditions, c.object(l.object.GetGeneration()))
	}
	for _, c := range []*condition{l.inputs.condition, l.secrets.condition} {
		if c != nil {
			conditions = append(conditions, c.object(l.object.GetGeneration()))
		}
	}
	ours["conditions"] = conditions
	if len(l.secrets.delivered) > 0 {
		ours["secrets"] = l.secrets.status()
	}
	if l.secrets.sequence > 0 {
		ours["secretsSequence"] = l.secrets.sequence
	}
	out["gitbind"] = ours
	return l.api.asStored(out)
}

// summary is the one line that people see first.
func summary(held, committed, conflict, applied condition, inputs, secrets *condition, ready condition) string {
	switch {
	case held.status == "True":
		return held.message
	case committed.status != "True":
		return committed.message
	case conflict.status == "True":
		return conflict.message
	case applied.status != "True":
		return applied.message
	case inputs != nil && inputs.status != "True":
		return inputs.message
	case secrets != nil && secrets.status != "True":
		return secrets.message
	case ready.status != "True":
		return ready.message
	}
	return ""
}

// committedCondition: main says what the object says.
func committedCondition(l *look, trouble error) condition {
	c := condition{kind: conditionCommitted, status: "True", reason: "Committed"}
	switch {
	case trouble != nil:
		c.status = "False"
		c.reason, c.message = explain(trouble)
	case l.decision.Action == decision.AwaitReview:
		c.status, c.reason, c.message = "False", "AwaitingReview", l.decision.Message
	case l.decision.Action == decision.Hold && !contract.Equal(l.facts.Live, l.facts.Base):
		c.status, c.reason, c.message = "False", "Held", l.decision.Message
	case l.facts.Terminating && l.file == nil:
		c.reason, c.message = "Removed", "The file is removed from main."
	}
	return c
}

// reviewCondition: a change of the object waits for somebody's approval.
func reviewCondition(l *look) *condition {
	switch {
	case l.decision.Action == decision.AwaitReview:
		return &condition{conditionReview, "True", "Proposed", l.decision.Message}
	case l.facts.Review, l.facts.Proposed != nil:
		return &condition{conditionReview, "False", "None", ""}
	}
	return nil
}

// appliedCondition: the control plane has what the object says.
func appliedCondition(l *look) condition {
	c := condition{kind: conditionApplied, status: "Unknown", reason: "Waiting", message: "The control plane has not answered yet."}
	a := l.answer
	switch {
	case l.view.StatusReplaced != "":
		c.reason, c.message = "StatusReplaced", l.view.StatusReplaced
		return c
	case a == nil:
		return c
	case l.file == nil && a.Result == contract.Deleting:
		return condition{conditionApplied, "False", string(a.Result), cmp.Or(a.Message, "The control plane is deleting the service.")}
	case l.file == nil && a.Result == contract.Held, l.file == nil && a.Result == contract.Failed, l.file == nil && a.Result == contract.Lost:
		return condition{conditionApplied, "False", string(a.Result), a.Message}
	case l.file == nil && a.Result != contract.Gone:
		c.message = "The control plane has not taken up the removal yet."
		return c
	case l.file != nil && a.Answers.Blob != string(l.file.Hash):
		c.message = "The control plane has not answered this version yet."
		return c
	case a.Result == contract.Applied && !contract.Equal(l.facts.Live, l.facts.File):
		c.reason, c.message = "NotOnMain", "The control plane has what main says, which is not what this object says."
		return c
	case a.Result == contract.Applied:
		return condition{conditionApplied, "True", string(a.Result), a.Message}
	}
	c.status, c.reason, c.message = "False", string(a.Result), a.Message
	if a.Problem != nil {
		c.message = a.Problem.Error()
	}
	return c
}

// readyCondition is the provider's own condition, which has a name of its own in some APIs.
func readyCondition(status map[string]any, named string) condition {
	list, _ := status["conditions"].([]any)
	for _, e := range list {
		c := objectOf(e)
		if kind, _ := c["type"].(string); kind != named {
			continue
		}
		text := func(field string) string { s, _ := c[field].(string); return s }
		out := condition{conditionReady, text("status"), text("reason"), text("message")}
		if out.status != "True" && out.status != "False" {
			out.status = "Unknown"
		}
		return out
	}
	return condition{conditionReady, "Unknown", "NotReported", "The control plane has not reported yet whether the service is ready."}
}

// tell makes an Event of what a person should know, when it is new.
func (r *reconciler) tell(l *look, trouble error) {
	all := []condition{heldCondition(l), conflictCondition(l), committedCondition(l, trouble), appliedCondition(l)}
	for _, c := range []*condition{l.inputs.condition, l.secrets.condition} {
		if c != nil {
			all = append(all, *c)
		}
	}
	for _, c := range all {
		bad := c.status == "False" && c.reason != "Held" && c.reason != "AwaitingReview" && c.reason != string(contract.Deleting)
		if c.kind == conditionHeld || c.kind == conditionConflict {
			bad = c.status == "True"
		}
		if bad && c.reason != reasonOf(l.object, c.kind) {
			r.recorder.Eventf(l.object, nil, corev1.EventTypeWarning, c.reason, "Sync", "%s", c.message)
		}
	}
}

// reasonOf is the reason of a condition in an object's status as it was. A reduced
// object of the cache has none, as none of its conditions was bad.
func reasonOf(u *unstructured.Unstructured, kind string) string {
	if c := conditionIn(u, kind); c != nil {
		return c.reason
	}
	return ""
}

// conditionIn is one of ours that an object's status has, nil for none.
func conditionIn(u *unstructured.Unstructured, kind string) *condition {
	list, _, _ := unstructured.NestedSlice(u.Object, "status", "gitbind", "conditions")
	for _, e := range list {
		c := objectOf(e)
		text := func(field string) string { s, _ := c[field].(string); return s }
		if c["type"] == kind {
			return &condition{kind, text("status"), text("reason"), text("message")}
		}
	}
	return nil
}
