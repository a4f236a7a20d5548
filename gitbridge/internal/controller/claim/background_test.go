package claim

import (
	"testing"

	"gitbind.dev/gitbridge/contract"
)

// An answer that is under way must not be overtaken by the one to a later
// version of the file.
func TestAPathWhoseAnswerIsUnderWayIsLookedAtWhenItIsThere(t *testing.T) {
	f := start(t)
	f.push("plan: [")
	f.follow()
	f.background.begin(f.path)
	if answer, calls, _ := f.step(); answer != nil || len(calls) > 0 || f.queue.Len() > 0 {
		t.Errorf("%+v %q, %d in the queue, though its answer is under way", answer, calls, f.queue.Len())
	}
	if !f.background.end(f.path) {
		t.Error("nobody looks at it any more")
	}
	if f.background.begin(f.path); f.background.end(f.path) {
		t.Error("it is looked at again for nothing")
	}
	if answer, _, _ := f.step(); answer == nil || answer.Result != contract.Invalid || f.background.isBusy(f.path) {
		t.Errorf("%+v", answer)
	}
}
