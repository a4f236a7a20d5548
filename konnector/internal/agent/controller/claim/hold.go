package claim

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/konnector/internal/agent/decision"
)

func held(l *look) condition {
	if l.decision.Action == decision.Hold {
		return condition{conditionHeld, "True", string(l.decision.Reason), l.decision.Message}
	}
	return condition{conditionHeld, "False", "None", ""}
}

// conflict: the object lost one, and nobody has looked at it yet.
func conflict(l *look) condition {
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
	out := map[string]any{"reason": string(d.Reason)}
	if len(d.Choices) > 0 {
		choices := make([]any, 0, len(d.Choices))
		for _, c := range d.Choices {
			choices = append(choices, string(c))
		}
		out["token"], out["choices"] = d.Token, choices
		// Who decides in the cluster may have no access to Git.
		if file := fileShown(l); file != "" {
			out["file"] = file
		}
	}
	if l.facts.Lost != nil {
		out["kept"] = l.facts.Lost.Branch
	}
	return out
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

// holdOf is what an object's status says that a person is to decide.
func holdOf(u *unstructured.Unstructured) (reason, token string) {
	hold, _, _ := unstructured.NestedMap(u.Object, "status", "gitbind", "hold")
	reason, _ = hold["reason"].(string)
	token, _ = hold["token"].(string)
	return reason, token
}
