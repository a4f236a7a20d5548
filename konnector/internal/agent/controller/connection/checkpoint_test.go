package connection

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/breaker"
	"gitbind.dev/gitbridge/guard"
	"gitbind.dev/konnector/internal/agent/repository"
)

func TestACheckpointIsReadAsItWasWritten(t *testing.T) {
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for _, c := range []repository.Checkpoint{
		{},
		{
			Accepted: "a1", Begun: "b1", Observed: guard.Observed{Epoch: "e1", Sequence: 7},
			Removals: []breaker.Removal{{Path: "bindings/x", At: at}},
			Moves:    []repository.Move{{From: "a", To: "b"}},
			Approved: repository.Approved{Main: "m", Removals: "r", RemovalsUpTo: at},
		},
	} {
		before := v1alpha1.ConnectionStatus{RefusedFiles: 3, Moves: []v1alpha1.Move{{From: "old", To: "older"}}}
		writeCheckpoint(&before, c)
		data, err := json.Marshal(before)
		if err != nil {
			t.Fatal(err)
		}
		var after v1alpha1.ConnectionStatus
		if err := json.Unmarshal(data, &after); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c, readCheckpoint(after), cmp.Comparer(time.Time.Equal)); diff != "" {
			t.Error(diff)
		}
		if after.RefusedFiles != 3 {
			t.Error("something else was forgotten")
		}
	}
}
