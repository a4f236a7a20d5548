package claim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/objectwatch"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/konnector/internal/agent/budget"
	"gitbind.dev/konnector/internal/agent/decision"
	"gitbind.dev/konnector/internal/agent/inputs"
)

// sentInputs is what there is to say of what a claim refers to.
type sentInputs struct {
	// condition is nil where there is nothing to say.
	condition *condition
	// due is when to look again though nothing changed.
	due time.Time
	// awaited names the version that the control plane has not answered yet; "" for none.
	awaited string
}

// inputSender sends what one API's claims refer to.
type inputSender struct {
	maker *inputs.Maker
	// writes bounds the commits for one claim.
	writes budget.Budget
	// pending and bytes are the reconciler's.
	pending *keys
	bytes   *byteBudget
}

func newInputSender(maker *inputs.Maker, pending *keys, bytes *byteBudget) inputSender {
	return inputSender{maker: maker, writes: budget.Budget{Most: maxWrites, Every: writeEvery}, pending: pending, bytes: bytes}
}

// make says what is to be on main of what the claim refers to, in the version that main
// is to have of it.
func (s *inputSender) make(ctx context.Context, l *look, uid string, version *contract.Claim) (inputs.Outcome, error) {
	c := inputs.Claim{Key: l.key, UID: uid, Offered: l.api.Inputs, Main: l.view.Main, Spec: version.Spec}
	if l.answer != nil {
		c.Answered = l.answer.Inputs
	}
	return s.maker.Make(ctx, c, l.api.Repository.Sender())
}

// writeInputs puts a claim's file of inputs onto main, if it is as it was.
func writeInputs(l *look, t *store.Tree, file []byte) error {
	path := l.key.InputsPath()
	was, had := l.view.Main.Entry(path)
	if is, has := t.Entry(path); has != had || is.Hash != was.Hash {
		return errMoved
	}
	return t.Write(path, file)
}

// send brings what the claim refers to onto main, where that is not there as it is
// now, and keeps with the look what there is to say of it. While a person is to decide on
// the claim, or it is being deleted, it stays as it is.
func (s *inputSender) send(ctx context.Context, l *look) error {
	if l.object == nil && l.file == nil {
		return s.drop(ctx, l)
	}
	if l.object == nil {
		return nil
	}
	uid, ok := l.uidOfInputs()
	if !ok {
		l.inputs.condition = conditionIn(l.object, conditionInputs)
		return nil
	}
	// What is proposed refers to nothing yet.
	made, err := s.make(ctx, l, uid, l.facts.File)
	if err != nil {
		return err
	}
	if made.File != nil {
		if rest := s.writes.Rest(l.key, time.Now()); rest > 0 {
			l.inputs.due, l.inputs.condition = time.Now().Add(rest), conditionIn(l.object, conditionInputs)
			return nil
		}
		err := s.bytes.push(l.key, len(made.File), func() error {
			return s.push(ctx, l, "update", func(t *store.Tree) error {
				if _, claimed := t.Entry(l.key.Path()); !claimed {
					return errMoved
				}
				return writeInputs(l, t, made.File)
			})
		})
		if errors.Is(err, errMoved) || err != nil && !isTrouble(err) {
			return err
		}
		if err != nil {
			reason, message := explain(err)
			made.Troubles = append(made.Troubles, inputs.Trouble{Reason: reason, Message: "What this claim refers to is not on main: " + message})
			made.Retry = jitter(unsentWait)
			if errors.Is(err, store.ErrRejected) {
				made.Retry = jitter(refusedWait)
			}
			if errors.Is(err, errManyBytes) {
				// That the control plane has seen a newer main changes nothing about it.
				made.Retry = jitter(bytesWait)
			} else {
				s.pending.add(l.key)
			}
		} else {
			s.writes.Spend(l.key, 1+len(made.File)/bytesPerWrite, time.Now())
			s.maker.Pushed(l.key, made)
		}
	}
	s.say(l, made)
	return nil
}

// uidOfInputs is the UID by which the control plane knows the claim: another one than the
// object's as long as no commit named that, as after the cluster was rebuilt from main; and
// none where branch status began anew after that commit. It is false where nothing is to be
// sent.
func (l *look) uidOfInputs() (uid string, ok bool) {
	switch {
	case l.view.Replaced != "", l.view.StatusReplaced != "", l.view.Copied != "":
		return "", false
	case l.file == nil, l.facts.File == nil, l.decision.Action == decision.Hold, l.facts.Terminating:
		return "", false
	case l.answer != nil && l.answer.UID == "" && l.answer.Answers.Blob == string(l.file.Hash):
		return "", true
	case l.base != nil && !l.mayBeAnother():
		return string(l.object.GetUID()), true
	case l.answer != nil:
		return l.answer.UID, true
	}
	return "", false
}

// drop takes the file of a claim that is gone off main.
func (s *inputSender) drop(ctx context.Context, l *look) error {
	s.maker.Forget(l.key)
	if _, exists := l.view.Main.Entry(l.key.InputsPath()); !exists || l.view.Replaced != "" || l.view.Copied != "" {
		return nil
	}
	err := s.push(ctx, l, "remove", func(t *store.Tree) error {
		if _, claimed := t.Entry(l.key.Path()); claimed {
			return errMoved
		}
		return removeInputs(l.key, t)
	})
	if err != nil && isTrouble(err) && !errors.Is(err, errMoved) {
		l.inputs.due = time.Now().Add(jitter(unsentWait))
		return nil
	}
	return err
}

// removeInputs takes the file of a claim's inputs off main, if there is one.
func removeInputs(key contract.Key, t *store.Tree) error {
	if _, exists := t.Entry(key.InputsPath()); !exists {
		return nil
	}
	return t.Remove(key.InputsPath())
}

// push commits a change of a claim's inputs alone. Who changed a Secret, the API
// server does not say.
func (s *inputSender) push(ctx context.Context, l *look, verb string, apply func(*store.Tree) error) error {
	cluster := l.api.Repository.ClusterID
	_, err := l.api.Repository.Update(ctx, store.Edit{
		Author: Authors(nil, cluster)[0], Subject: fmt.Sprintf("inputs: %s %s", verb, l.key),
		Trailers: []store.Trailer{{Key: contract.TrailerCluster, Value: cluster}}, Apply: apply,
	})
	if err != nil {
		return fmt.Errorf("push the inputs of %s: %w", l.key, err)
	}
	return nil
}

// say makes the condition of what goes up.
func (s *inputSender) say(l *look, made inputs.Outcome) {
	if made.Retry > 0 {
		l.inputs.due = time.Now().Add(made.Retry)
	}
	var answered *contract.Inputs
	if l.answer != nil {
		answered = l.answer.Inputs
	}
	has := answered != nil && made.Sequence > 0 && answered.Sequence >= made.Sequence
	var all []trouble
	for _, t := range made.Troubles {
		all = append(all, trouble{t.Reason, t.Message})
		if t.Reason == inputs.NoKey {
			s.pending.add(l.key)
		}
	}
	if answered != nil {
		for _, name := range slices.Sorted(maps.Keys(answered.Refused)) {
			what := "The control plane does not take " + name
			if name == contract.AllInputs {
				what = "The control plane does not take what this claim refers to"
			}
			all = append(all, trouble{"Refused", what + ": " + strings.TrimSuffix(answered.Refused[name], ".") + "."})
		}
	}
	switch {
	case len(all) > 0:
		reason, message := sumTroubles(all)
		l.inputs.condition = &condition{conditionInputs, "False", reason, message}
	case made.Sequence == 0:
	case !has:
		l.inputs.awaited = fmt.Sprint("inputs ", made.Sequence)
		l.inputs.condition = &condition{conditionInputs, "Unknown", "Waiting", "The control plane has not taken this version yet."}
	case len(made.Objects) == 0:
		l.inputs.condition = &condition{conditionInputs, "True", "None", "This claim refers to nothing that goes to the control plane."}
	default:
		l.inputs.condition = &condition{conditionInputs, "True", "Taken", "On the control plane: " + shortened(made.Objects) + "."}
	}
}

// settledInputs sends what the claim refers to. Done says that there is nothing more to do
// in this run.
func (r *reconciler) settledInputs(ctx context.Context, l *look, now bool) (result ctrl.Result, done bool, err error) {
	err = r.inputs.send(ctx, l)
	switch {
	case errors.Is(err, objectwatch.ErrNotKnown):
		// It is called when it is known; until then its status says what it said.
		return ctrl.Result{}, !now, nil
	case err != nil:
		return ctrl.Result{}, true, err
	}
	// What the claim itself waits for is waited for first: a claim waits for one thing.
	if l.inputs.awaited != "" && !now && l.decision.Action == decision.Nothing && !l.answerIsDue() {
		if rest := r.waiting.rest(l.key, l.inputs.awaited, answerTimeout); rest > 0 {
			return ctrl.Result{RequeueAfter: rest}, true, nil
		}
	}
	return ctrl.Result{}, false, nil
}
