package claim

import (
	"errors"
	"time"

	"gitbind.dev/konnector/internal/agent/decision"
	"gitbind.dev/konnector/internal/choice"
)

const (
	// maxWrites is how many commits and writes of one claim may follow each other, and
	// writeEvery how long until one more may: people and what they run stay far below,
	// and who answers each write of the konnector with another one does not.
	maxWrites, writeEvery = 50, 6 * time.Second
	// They bound the commits of what it refers to, too, which are not held but wait.
	// A commit counts once more for each bytesPerWrite of its file, as repositories keep them all.
	bytesPerWrite = 32 << 10
	// So do maxStatuses and statusEvery bound its status, as a provider may have more to say.
	maxStatuses, statusEvery = 100, 2 * time.Second
)

// spend counts what was done for a claim, so that who answers each write with another
// one is found out. What failed does not count, but for a push whose base found the
// object changed already. A person's decision makes a new beginning.
func (r *reconciler) spend(l *look, err error) {
	if err != nil && !errors.Is(err, errMoved) {
		return
	}
	if l.decision.Chosen != "" {
		r.writes.Reset(l.key)
	}
	r.writes.Spend(l.key, 1+l.pushed/bytesPerWrite, time.Now())
}

// lookAtBudget finds out whether the claim's budget of writes is spent. Once that is
// said, it holds until a person decides, or something changes in Git.
func (r *reconciler) lookAtBudget(l *look, in input) error {
	f := &l.facts
	if l.object == nil || l.reduced != nil || f.Live == nil || f.Base == nil {
		return nil
	}
	if r.writes.Rest(l.key, time.Now()) <= 0 {
		h := choice.HoldOf(l.object)
		if h == nil || h.Reason != string(decision.ManyWrites) || h.Token != f.Token(decision.ManyWrites) {
			return nil
		}
	}
	if in.cached {
		// It does not have who wrote what.
		return errIncomplete
	}
	if f.ManyWrites = writers(l); f.ManyWrites == "" {
		f.ManyWrites = "what does not differ now"
	}
	return nil
}
