package ui

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
)

// Tone is how a state is marked: by a sign and a colour, never by the colour
// alone, beside its word.
type Tone string

// The tones, from well to bad.
const (
	Good Tone = "good"
	Off  Tone = "off"
	Busy Tone = "busy"
	Warn Tone = "warn"
	Bad  Tone = "bad"
)

// Sign stands before the word; a screen reader leaves it out.
func (t Tone) Sign() string {
	switch t {
	case Good:
		return "✓"
	case Busy:
		return "…"
	case Warn:
		return "!"
	case Bad:
		return "✕"
	}
	return "–"
}

// State is a state in words.
type State struct {
	Tone Tone
	// Word is the state in one or two words.
	Word string
	// Says is the sentence to it, in our words.
	Says string
}

// Attention tells whether a person has something to do or to know.
func (s State) Attention() bool { return s.Tone == Warn || s.Tone == Bad }

// answer is what is kept of a ClaimStatus for lists.
type answer struct {
	blob   string
	result contract.Result
	reason contract.Reason
	// message is the bridge's or, when the bridge has none, that of the
	// provider's condition Ready.
	message string
	// ready is the status of the provider's condition Ready; "" without one.
	ready string
	// since is when that became so, by the provider's clock; zero where it does not say.
	since time.Time
	// waiting is what a service that is not ready waits for, in the provider's words.
	waiting string
	// said is the blob of the answer, where that matters.
	said string
	// secrets are the names of those that are sent with it, the first few.
	secrets []string
	// broken says that the file on status could not be read.
	broken bool
}

// judge says what state a claim is in: blob is that of its file on main, "" when
// there is none; a is nil when status says nothing about it.
func judge(blob string, a *answer) State {
	switch {
	case a != nil && a.broken:
		return State{Warn, "Unreadable", "What the control plane says about it cannot be read. A platform operator should look at the branch status."}
	case blob == "":
		return judgeRemoved(a)
	case a == nil, a.result == contract.Gone:
		return State{Busy, "Waiting", "The file is on main; the control plane has not answered it yet."}
	case a.result == contract.Deleting:
		return State{Busy, "Deleting", "The service is being deleted, though its file is on main."}
	case a.blob != blob:
		return State{Busy, "Changing", "The newest version is on main; the control plane has answered an earlier one only."}
	}
	return judgeAnswered(a)
}

// judgeAnswered is for a file that the answer is about.
func judgeAnswered(a *answer) State {
	switch a.result {
	case contract.Applied:
		switch {
		case a.reason == contract.Contested:
			return State{Warn, "Contested", "It is applied, and somebody on the control plane keeps changing it."}
		case a.ready == "True":
			return State{Good, "Ready", "The service is ready and is what the file says."}
		case a.ready != "":
			return State{Busy, "Not ready", "The control plane has it; the service is not ready yet."}
		}
		return State{Good, "Applied", "The control plane has what the file says."}
	case contract.Invalid:
		return State{Bad, "Invalid", "The file cannot be a claim. Nothing was changed: the service stays as it was."}
	case contract.Denied:
		if a.reason == contract.OverQuota {
			return State{Warn, "Waits for room", "There is no room for it in the quota yet. It is applied by itself when there is; until then the service stays as it was."}
		}
		return State{Bad, "Denied", "The control plane or one of its policies refuses the content. The service stays as it was."}
	case contract.Held:
		return State{Warn, "Held", "Nothing is done until a person decides."}
	case contract.Failed:
		return State{Bad, "Failed", "It could not be applied just now, and is tried again by itself."}
	case contract.Lost:
		return State{Bad, "Lost", "It was applied once and is missing on the control plane. It is not made again by itself, because an empty service in the place of a full one is worse than none."}
	}
	return State{Warn, "Unknown", fmt.Sprintf("The control plane says %q, which this page does not know.", short(string(a.result), 40))}
}

// judgeRemoved is for a claim whose file is not on main.
func judgeRemoved(a *answer) State {
	switch {
	case a == nil:
		return State{Off, "Not there", "There is neither a file nor a service."}
	case a.result == contract.Gone:
		return State{Off, "Gone", "The file was removed, and the service is gone."}
	case a.result == contract.Deleting:
		return State{Busy, "Deleting", "The file was removed; the service is not gone yet."}
	case a.result == contract.Held:
		return State{Warn, "Removal held", "The file was removed; the service stays until a person decides."}
	case a.result == contract.Lost:
		return State{Bad, "Lost", "The file was removed, and the service is missing on the control plane."}
	}
	return State{Busy, "Being removed", "The file was removed; the control plane has not acted on that yet."}
}

// seenLately is how long a konnector may be silent: it comes each minute or more
// often.
const seenLately = 5 * time.Minute

// judgeCluster says whether an app cluster's agent is there, and whether the
// control plane can work for it.
func judgeCluster(cb *v1alpha1.ClusterBinding, seen, now time.Time) State {
	ready := meta.FindStatusCondition(cb.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case cb.DeletionTimestamp != nil:
		return State{Busy, "Being removed", "The control plane is removing what it made for this cluster."}
	case cb.Spec.Suspended:
		return State{Warn, "Suspended", "A platform operator has stopped the control plane's side. Changes are kept in Git and acted on afterwards."}
	case ready == nil || ready.Status != metav1.ConditionTrue:
		return State{Busy, "Being set up", "The control plane is making its repository and rights."}
	case seen.IsZero():
		return State{Busy, "Not seen yet", "Its konnector has not been here yet. Run kubectl gitbind connect in it."}
	case now.Sub(seen) > seenLately:
		return State{Warn, "Not seen", "Its konnector has not been here for " + ago(now.Sub(seen)) + ". Changes in the cluster do not reach Git until it is back."}
	}
	return State{Good, "Connected", "Its konnector was here " + ago(now.Sub(seen)) + " ago."}
}

// judgeSync says how the bridge gets on with a cluster's repository; ok is false
// when there is nothing to tell.
func judgeSync(cb *v1alpha1.ClusterBinding) (note Note, ok bool) {
	synced := meta.FindStatusCondition(cb.Status.Conditions, v1alpha1.ConditionSynced)
	if synced == nil || synced.Status == metav1.ConditionTrue {
		return Note{}, false
	}
	if synced.Status == metav1.ConditionUnknown {
		return Note{Tone: Busy, Title: "Not synced yet", Text: visible(synced.Message)}, true
	}
	return Note{Tone: Warn, Title: "Not in sync: " + words(synced.Reason), Text: visible(synced.Message)}, true
}

// judgeExport says whether a bound API can be used.
func judgeExport(e *v1alpha1.APIServiceExport) (State, string) {
	for _, step := range []struct{ condition, word, says string }{
		{v1alpha1.ConditionGranted, "Being granted", "The control plane is giving the cluster its rights on this API."},
		{v1alpha1.ConditionPublished, "Being published", "The API is on its way to the cluster."},
	} {
		c := meta.FindStatusCondition(e.Status.Conditions, step.condition)
		switch {
		case c == nil || c.Status == metav1.ConditionUnknown:
			return State{Busy, step.word, step.says}, ""
		case c.Status == metav1.ConditionFalse:
			return State{Warn, words(c.Reason), "This API cannot be used as it should."}, visible(c.Message)
		}
	}
	if c := meta.FindStatusCondition(e.Status.Conditions, v1alpha1.ConditionPermitted); c != nil && c.Status == metav1.ConditionFalse {
		return State{Warn, "Not permitted", "New claims are held; what is there stays."}, visible(c.Message)
	}
	if e.DeletionTimestamp != nil {
		return State{Busy, "Being unbound", "The control plane is taking the API back."}, ""
	}
	return State{Good, "Bound", "The API is published to the cluster."}, ""
}

// judgeRequest says what state a request for an API is in. ok is false when there
// is nothing to tell beside the export that it led to.
func judgeRequest(i item, exported bool) (s State, ok bool) {
	switch {
	case i.answer == nil || i.answer.blob != i.blob && !i.state().Attention():
		return State{Busy, "Asked for", "Its request is on main; the control plane has not answered it yet."}, i.blob != "" && !exported
	case i.result == contract.Held:
		return State{Warn, "Unbinding held", "Its request was removed, and there are claims still."}, true
	case i.result == contract.Denied:
		return State{Bad, "Denied", "The cluster may not bind this API."}, true
	case i.result == contract.Invalid:
		return State{Bad, "Invalid", "Its request cannot be read."}, true
	case i.result == contract.Failed:
		return State{Bad, "Failed", "It could not be bound just now, and is tried again by itself."}, true
	}
	return State{Off, "Not bound", "It was bound once."}, false
}

// judgeBinding says what state an API is in for a cluster; known is false when
// there is nothing of it. e is nil for one without an export, s while Git is away.
func judgeBinding(name string, e *v1alpha1.APIServiceExport, s *survey) (state State, message string, known bool) {
	if s != nil {
		if r, isThere := s.requests[name]; isThere {
			if state, ok := judgeRequest(r, e != nil); ok {
				if r.answer != nil {
					message = r.message
				}
				return state, message, true
			}
		}
	}
	if e != nil {
		state, message = judgeExport(e)
		return state, message, true
	}
	if s == nil || alive(s.claims[name]) == 0 {
		return State{Off, "Not bound", "It was bound once."}, "", s != nil && len(s.claims[name]) > 0
	}
	return State{Warn, "Not bound", "There are claims of this API, and it is not bound."}, "", true
}

// words takes a reason such as RemovalsHeld apart: "removals held".
func words(reason string) string {
	var out []rune
	for i, r := range reason {
		if r >= 'A' && r <= 'Z' {
			if i > 0 {
				out = append(out, ' ')
			}
			r += 'a' - 'A'
		}
		out = append(out, r)
	}
	return visible(string(out))
}
