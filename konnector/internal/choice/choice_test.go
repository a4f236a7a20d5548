package choice_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gitbind.dev/konnector/internal/choice"
)

// The plugin reads what the agent writes.
func TestAHoldIsReadAsItWasWritten(t *testing.T) {
	for _, want := range []choice.Hold{
		{Reason: "FileInvalid"},
		{Reason: "BothChanged", Token: "t1", Choices: choice.All(), Kept: "conflicts/x", File: "spec: {}\n"},
	} {
		u := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"gitbind": map[string]any{"hold": want.Status()}}}}
		if diff := cmp.Diff(&want, choice.HoldOf(u)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestWhatIsNoHoldOfOursIsNone(t *testing.T) {
	for _, status := range []any{
		nil, "", map[string]any{}, map[string]any{"gitbind": "x"}, map[string]any{"gitbind": map[string]any{"hold": "x"}},
		map[string]any{"gitbind": map[string]any{"hold": map[string]any{"choices": "file"}}},
	} {
		if h := choice.HoldOf(&unstructured.Unstructured{Object: map[string]any{"status": status}}); h != nil {
			t.Errorf("%v: %+v", status, h)
		}
	}
}

func TestAnAnswerTakesOneOfTheChoicesUnderItsToken(t *testing.T) {
	offered := []choice.Choice{choice.Delete, choice.Keep}
	for answer, want := range map[string]choice.Choice{
		choice.Keep.Answer("t1"): choice.Keep, "delete.t1": choice.Delete,
		"delete.t2": "", "file.t1": "", "delete": "", ".t1": "", "": "",
	} {
		if got := choice.Taken(answer, "t1", offered); got != want {
			t.Errorf("%q takes %q, want %q", answer, got, want)
		}
	}
}
