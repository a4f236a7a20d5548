package claim

import (
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/konnector/internal/agent/decision"
	"gitbind.dev/konnector/internal/choice"
)

func heldCondition(l *look) condition {
	if l.decision.Action == decision.Hold {
		return condition{conditionHeld, "True", string(l.decision.Reason), l.decision.Message}
	}
	return condition{conditionHeld, "False", "None", ""}
}

// conflictCondition: the object lost one, and nobody has looked at it yet.
func conflictCondition(l *look) condition {
	if l.decision.Action == decision.Nothing && l.decision.Reason != "" {
		return condition{conditionConflict, "True", string(l.decision.Reason), l.decision.Message}
	}
	return condition{conditionConflict, "False", "None", ""}
}

// maxFileShown is how much of a file is shown, in bytes.
const maxFileShown = 64 << 10

// toDecide is status.gitbind.hold: what a person is to decide; nil for nothing.
func toDecide(l *look) map[string]any {
	d := l.decision
	if d.Reason == "" {
		return nil
	}
	h := choice.Hold{Reason: string(d.Reason)}
	if len(d.Choices) > 0 {
		// Who decides in the cluster may have no access to Git.
		h.Token, h.Choices, h.File = d.Token, d.Choices, fileShown(l)
	}
	if l.facts.Lost != nil {
		h.Kept = l.facts.Lost.Branch
	}
	return h.Status()
}

// fileShown is what main says, in canonical form.
func fileShown(l *look) string {
	if l.facts.File == nil {
		return ""
	}
	data, err := contract.Encode(l.facts.File)
	if err != nil || len(data) > maxFileShown {
		return ""
	}
	return string(data)
}
