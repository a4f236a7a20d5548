package decision

import (
	"fmt"
	"iter"
	"testing"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/guard"
	"gitbind.dev/konnector/internal/choice"
)

// The promises hold for each combination of facts, however unlikely.
func TestForKeepsThePromises(t *testing.T) {
	n := 0
	for f, d := range everything() {
		n++
		for _, p := range promises {
			if broken := p.broken(f, d); broken {
				t.Fatalf("%s: %s %s for %s", p.name, d.Action, d.Reason, describe(f))
			}
		}
	}
	if n < 10_000 {
		t.Errorf("only %d combinations", n)
	}
}

// Each promise holds but for what a person has decided.
var promises = []struct {
	name   string
	broken func(f Facts, d Decision) bool
}{
	{"an object is deleted only when its file was removed since both agreed, and nobody edited it", func(f Facts, d Decision) bool {
		return d.Action == Delete && d.Chosen != choice.Delete && (f.Base == nil || !contract.Equal(f.Live, f.Base) || f.Continues != Yes || f.Touched)
	}},
	{"an object is deleted only when there is no file", func(f Facts, d Decision) bool {
		return d.Action == Delete && (f.File != nil || f.Problem != nil || f.Terminating)
	}},
	{"a file is removed only for a user's delete of the object that it says", func(f Facts, d Decision) bool {
		known := contract.Equal(f.Live, f.File) || f.OwnWork == Yes || f.Base != nil && contract.Equal(f.File, f.Base)
		return d.Action == RemoveFile && (!f.Terminating || d.Chosen != choice.Delete && (f.Ending != "" || f.BaseRemoved || !known))
	}},
	{"a removal was let pass, or a person decided", func(f Facts, d Decision) bool {
		return (d.Action == RemoveFile || d.Action == Delete) && d.Chosen == "" && (f.Removal == nil || f.Removal.IsHeld())
	}},
	{"an object is not overwritten when it has an edit that is not in Git", func(f Facts, d Decision) bool {
		pushed := f.Interrupted == AllPushed && f.OwnWork == No
		return d.Action == Write && (!pushed && (f.Base == nil || !contract.Equal(f.Live, f.Base)) || (f.Touched || f.Proposed != nil) && f.OwnWork != No && d.Chosen == "")
	}},
	{"a file from before what both agreed on undoes nothing", func(f Facts, d Decision) bool {
		older := f.BaseCurrent && f.Continues != Yes && f.File != nil && !contract.Equal(f.File, f.Base)
		return (d.Action == Write || d.Action == Merge || d.Action == GiveWay) && d.Chosen == "" && older
	}},
	{"what was edited since a push that was not recorded is kept", func(f Facts, d Decision) bool {
		return (d.Action == Write || d.Action == Merge) && d.Chosen == "" && f.Interrupted == EditedSince && (f.Touched || !contract.Equal(f.Live, f.Base))
	}},
	{"a file is not overwritten when it has an edit that is not in the cluster", func(f Facts, d Decision) bool {
		untouched := f.Base != nil && contract.Equal(f.File, f.Base)
		return d.Action == Commit && d.Chosen == "" && f.File != nil && !untouched
	}},
	{"sides are merged only where both changed, each by itself", func(f Facts, d Decision) bool {
		return d.Action == Merge && (f.Base == nil || f.OwnWork != No || f.Merges != Yes || contract.Equal(f.Live, f.Base) || contract.Equal(f.File, f.Base) || f.MergeRefusal != "")
	}},
	{"an object gives way only to a file that differs", func(f Facts, d Decision) bool {
		return d.Action == GiveWay && (f.File == nil || contract.Equal(f.Live, f.File) || f.Terminating || d.Reason == "")
	}},
	{"who may not write does not", func(f Facts, d Decision) bool {
		return f.Writer == v1alpha1.WriterGit && (d.Action == Commit && d.Chosen == "" || d.Action == Merge || d.Action == RemoveFile && d.Chosen == "") ||
			f.Writer == v1alpha1.WriterCluster && d.Chosen == "" && (d.Action == Write || d.Action == GiveWay || d.Action == Merge || d.Action == Delete)
	}},
	{"a file that cannot be read is left alone", func(f Facts, d Decision) bool {
		return f.Problem != nil && d.Chosen == "" && d.Action != Hold && d.Action != Nothing
	}},
	{"what the API server refused is not tried again", func(f Facts, d Decision) bool {
		return f.Refusal != "" && (d.Action == Write || d.Action == Create || d.Action == GiveWay)
	}},
	{"the finalizer stays until the control plane says that nothing is left", func(f Facts, d Decision) bool {
		// As an operator has chosen for each removal that is rejected.
		reverted := f.Proposed != nil && f.OnRejection == v1alpha1.OnRejectionRevert && f.Verdict != nil && (f.Verdict.State == VerdictRejected || f.Verdict.State == VerdictClosed)
		return d.Action == Release && (!f.Terminating || d.Chosen != choice.Release && !reverted && (f.Gone != Yes || f.File != nil || f.Problem != nil))
	}},
	{"nothing is written in either direction while main's history is in doubt, or another copy of the cluster is live", func(f Facts, d Decision) bool {
		return (f.Replaced != "" || f.Copied != "") && d.Action != Hold && d.Action != Nothing && d.Action != Wait
	}},
	{"a paused claim is left alone", func(f Facts, d Decision) bool {
		return f.Paused && f.Live != nil && d.Action != Hold
	}},
	{"the absence of an object removes nothing", func(f Facts, d Decision) bool {
		return f.Live == nil && d.Action != Nothing && d.Action != Create && d.Action != Hold
	}},
	{"an object that terminates gets no new content", func(f Facts, d Decision) bool {
		switch d.Action {
		case Write, Create, Commit, Record, Merge, GiveWay, TakeBack:
			return f.Terminating
		}
		return false
	}},
	{"what only a history tells that is too long is not taken for no", func(f Facts, d Decision) bool {
		ordered := d.Action == Commit && f.Base == nil && f.File == nil
		merged := (d.Action == Write || d.Action == Merge) && (f.Touched || !contract.Equal(f.Live, f.Base))
		return f.HistoryTooLong && !f.Terminating && d.Chosen == "" && (ordered || merged)
	}},
	{"a hold says why and what to do", func(f Facts, d Decision) bool {
		return d.Action == Hold && (d.Reason == "" || len(d.Message) < 20)
	}},
	{"what can be chosen has a token", func(f Facts, d Decision) bool {
		return (len(d.Choices) > 0) != (d.Token != "")
	}},
	{"an answered question is not asked again", func(f Facts, d Decision) bool {
		answered := map[Question]Answer{
			AskOwnWork: f.OwnWork, AskContinues: f.Continues, AskGone: f.Gone, AskMerge: f.Merges, AskFlips: f.Flips, AskRemoval: judged(f.Removal),
		}
		return d.Action == Ask && answered[d.Question] != Unasked
	}},
}

// everything gives all combinations of facts that there can be, with what is
// decided.
func everything() iter.Seq2[Facts, Decision] {
	return func(yield func(Facts, Decision) bool) {
		for f := range allFacts() {
			for f, d := range withDecisions(f) {
				if !yield(f, d) {
					return
				}
			}
		}
	}
}

// allFacts gives all combinations of facts that there can be.
func allFacts() iter.Seq[Facts] {
	answers := []struct {
		Answer
		Interrupted
		historyTooLong bool
	}{{Unasked, NotInterrupted, false}, {No, NotInterrupted, false}, {No, NotInterrupted, true}, {No, AllPushed, false}, {No, EditedSince, false}, {Yes, NotInterrupted, false}}
	return func(yield func(Facts) bool) {
		for _, live := range []*contract.Claim{nil, old, edit} {
			for _, file := range []*contract.Claim{nil, old, edit, other} {
				for _, base := range []*contract.Claim{nil, old} {
					for bits := range 1 << 11 {
						for _, ending := range []Ending{"", NamespaceEnds, APIEnds, OwnerEnds} {
							for _, answer := range answers {
								f := facts(bits, answer.Answer)
								f.Live, f.File, f.Base, f.Ending, f.Interrupted, f.HistoryTooLong = live, file, base, ending, answer.Interrupted, answer.historyTooLong
								if !isNonsense(f) && !yield(f) {
									return
								}
							}
						}
					}
				}
			}
		}
	}
}

// isNonsense reports whether something is said of what is not there.
func isNonsense(f Facts) bool {
	return f.Live == nil && f.Terminating || f.File != nil && f.Problem != nil ||
		f.Base == nil && (f.BaseRemoved || f.BaseCurrent || f.Lost != nil)
}

// verdict is one that lets a removal pass, or not, or is not known yet.
func verdict(pass Answer) *guard.Verdict {
	switch pass {
	case Unasked:
		return nil
	case Yes:
		return &guard.Verdict{}
	default:
		return &guard.Verdict{Reason: contract.ManyRemovals, Message: "It is one of many at once."}
	}
}

func judged(v *guard.Verdict) Answer {
	switch {
	case v == nil:
		return Unasked
	case v.IsHeld():
		return No
	default:
		return Yes
	}
}

func facts(bits int, answer Answer) Facts {
	bit := func(i int) bool { return bits>>i&1 == 1 }
	f := Facts{
		Key: key, Touched: bit(6), Finalizer: bit(0), Terminating: bit(1), BaseRemoved: bit(3), BaseCurrent: bit(4),
		OwnWork: answer, Continues: answer, Gone: answer, Removal: verdict(answer), Flips: answer, Merges: answer,
		Merged: other, FlipWords: "spec.plan goes to and fro.",
	}
	// These answers are independent of the others.
	if bit(7) {
		f.Removal, f.Flips, f.Merges = verdict((answer+1)%3), (answer+2)%3, (answer+1)%3
	}
	if bit(10) {
		f.Continues = (answer + 1) % 3
	}
	if bit(2) {
		f.Problem = errBad
	}
	if bit(5) {
		f.Refusal = "spec.plan: Unsupported value"
	}
	switch {
	case bit(8) && bit(9):
		f.Lost = lost
	case bit(8):
		f.Writer = v1alpha1.WriterGit
	case bit(9):
		f.Writer = v1alpha1.WriterCluster
	}
	return f
}

// withDecisions gives facts with each decision that a person can take on them,
// and with what stops everything.
func withDecisions(f Facts) iter.Seq2[Facts, Decision] {
	return func(yield func(Facts, Decision) bool) {
		d := For(f)
		all := []Facts{f}
		for _, taken := range d.Choices {
			g := f
			g.Resolve = taken.Answer(d.Token)
			all = append(all, g)
		}
		for _, g := range all {
			copied := g
			g.Replaced, copied.Copied = "The repository was restored from a backup.", "Two live copies of this cluster use one credential."
			all = append(all, g, copied)
		}
		paused := f
		paused.Paused = true
		if !yield(f, d) {
			return
		}
		for _, g := range append(all[1:], paused) {
			if !yield(g, For(g)) {
				return
			}
		}
	}
}

func describe(f Facts) string {
	plan := func(c *contract.Claim) any {
		if c == nil {
			return "none"
		}
		return c.Spec["plan"]
	}
	return fmt.Sprintf("live %q, file %q, base %q, %+v", plan(f.Live), plan(f.File), plan(f.Base), f)
}
