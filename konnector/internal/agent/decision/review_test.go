package decision

import (
	"strings"
	"testing"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/guard"
	"gitbind.dev/konnector/internal/choice"
)

// What would be done to main is proposed, and goes on by the verdict.
func TestForWhereChangesAreReviewed(t *testing.T) {
	t.Parallel()
	const branch = "changes/postgresqlinstances.anynines.com/team-a/orders"
	changed := func(change func(*Facts)) Facts {
		f := Facts{
			Key: key, UID: "u1", Live: edit, File: old, FileBlob: "b1", Base: old, Finalizer: true, BaseCurrent: true,
			Review: true, OwnWork: No, Continues: Yes, Flips: No, Gone: Yes,
		}
		change(&f)
		return f
	}
	verdict := func(state VerdictState) *Verdict {
		return &Verdict{State: state, By: "bob", Message: "too big", Page: "https://gitbind.example/c/" + branch}
	}
	proposed := func(f *Facts, v *Verdict) {
		f.Proposed, f.Verdict = &Proposed{Branch: branch, Commit: "c1", Blob: "b2", Main: "b1", Live: true}, v
	}
	created := func(f *Facts) { f.File, f.FileBlob, f.Base, f.BaseCurrent = nil, "", nil, false }
	deleted := func(f *Facts) { f.Live, f.Terminating = old, true }
	removal := func(f *Facts, v *Verdict) {
		deleted(f)
		f.Proposed, f.Verdict = &Proposed{Branch: branch, Commit: "c1", Main: "b1"}, v
	}
	// These are done to main after something was proposed.
	comment := func(f *Facts) { f.FileBlob = "b3" }
	otherField := func(f *Facts) { f.FileBlob, f.File, f.Merges, f.Merged = "b3", other, Yes, edit2 }
	for _, tc := range []struct {
		row   string
		f     Facts
		want  Action
		why   Reason
		words string
	}{
		{row: "changed", f: changed(func(*Facts) {}), want: Propose},
		{row: "new", f: changed(created), want: Propose},
		{row: "deleted by a user", f: changed(deleted), want: Propose},
		{row: "changed, and it cannot wait", f: changed(func(f *Facts) { f.Emergency = "disk full" }), want: Commit},
		{row: "proposed", f: changed(func(f *Facts) { proposed(f, nil) }), want: Ask},
		{row: "open", f: changed(func(f *Facts) { proposed(f, verdict(VerdictOpen)) }), want: AwaitReview, words: "https://gitbind.example/c/" + branch + ", or kubectl gitbind review " + branch},
		{row: "nobody can be asked", f: changed(func(f *Facts) { proposed(f, &Verdict{State: VerdictUnknown}) }), want: AwaitReview, words: "approves it: kubectl gitbind review " + branch},
		{row: "merged a moment ago", f: changed(func(f *Facts) { proposed(f, verdict(VerdictMerged)) }), want: AwaitReview, words: "is approved"},
		{row: "merged, and taken back on main", f: changed(func(f *Facts) { proposed(f, verdict(VerdictSeen)) }), want: RebaseProposed},
		{row: "lost with a restore", f: changed(func(f *Facts) { proposed(f, verdict(VerdictLost)) }), want: Propose},
		{row: "removal lost with a restore", f: changed(func(f *Facts) { removal(f, verdict(VerdictLost)) }), want: Propose},
		{row: "edited while in review", f: changed(func(f *Facts) { proposed(f, verdict(VerdictOpen)); f.Proposed.Live = false }), want: Propose},
		{row: "pushed perhaps", f: changed(func(f *Facts) { proposed(f, verdict(VerdictOpen)); f.Proposed.Begun = true }), want: Propose},
		{row: "pushed perhaps, and changed back", f: changed(func(f *Facts) { proposed(f, nil); f.Proposed.Begun, f.Live = true, old }), want: Withdraw},
		{row: "pushed perhaps, and deleted before it was ordered", f: changed(func(f *Facts) { created(f); proposed(f, nil); f.Proposed.Begun, f.Terminating = true, true }), want: Withdraw},
		{row: "main moved underneath", f: changed(func(f *Facts) { proposed(f, verdict(VerdictOpen)); f.Proposed.Main = "b0" }), want: Propose},
		{row: "deleted while a change is in review", f: changed(func(f *Facts) { proposed(f, verdict(VerdictOpen)); deleted(f) }), want: Propose},
		{row: "both changed other fields", f: changed(func(f *Facts) { f.File, f.Merges, f.Merged = other, Yes, edit2 }), want: WriteMerged},
		{row: "both changed the same field", f: changed(func(f *Facts) { f.File, f.Merges = other, No }), want: GiveWay, why: BothChanged},
		{row: "changed by a reviewer before the merge", f: changed(func(f *Facts) { proposed(f, nil); f.File, f.Interrupted = other, AllPushed }), want: Write},

		{row: "rejected", f: changed(func(f *Facts) { proposed(f, verdict(VerdictRejected)) }), want: Hold, why: Rejected, words: `bob rejected this change: "too big". It is on branch ` + branch},
		{row: "rejected, without words", f: changed(func(f *Facts) { proposed(f, &Verdict{State: VerdictRejected}) }), want: Hold, why: Rejected, words: "Somebody rejected this change. It is"},
		{row: "closed", f: changed(func(f *Facts) { proposed(f, verdict(VerdictClosed)) }), want: Hold, why: Rejected, words: "closed without being merged"},
		{row: "rejected and new", f: changed(func(f *Facts) { proposed(f, verdict(VerdictRejected)); created(f); f.Proposed.Main = "" }), want: Hold, why: Rejected, words: "Nothing was ordered"},
		{row: "rejected and edited again", f: changed(func(f *Facts) { proposed(f, verdict(VerdictRejected)); f.Proposed.Live = false }), want: Propose},
		{row: "revert: rejected", f: changed(func(f *Facts) { proposed(f, verdict(VerdictRejected)); f.OnRejection = v1alpha1.OnRejectionRevert }), want: Revert, why: Rejected},
		{row: "revert: closed, and kept on no branch", f: changed(func(f *Facts) { proposed(f, verdict(VerdictClosed)); f.OnRejection = v1alpha1.OnRejectionRevert }), want: GiveWay, why: Rejected},
		{row: "revert: rejected and new", f: changed(func(f *Facts) {
			proposed(f, verdict(VerdictRejected))
			created(f)
			f.Proposed.Main, f.OnRejection = "", v1alpha1.OnRejectionRevert
		}), want: Hold, why: Rejected},
		{row: "revert: rejected, and the API server refuses the file", f: changed(func(f *Facts) {
			proposed(f, verdict(VerdictRejected))
			f.OnRejection, f.Refusal = v1alpha1.OnRejectionRevert, "spec.plan"
		}), want: Hold, why: Rejected},
		{row: "removal rejected", f: changed(func(f *Facts) { removal(f, verdict(VerdictRejected)) }), want: Hold, why: Rejected, words: "the service is kept"},
		{row: "revert: removal rejected", f: changed(func(f *Facts) { removal(f, verdict(VerdictRejected)); f.OnRejection = v1alpha1.OnRejectionRevert }), want: Release},
		{row: "removal in review", f: changed(func(f *Facts) { removal(f, verdict(VerdictOpen)) }), want: AwaitReview, words: "The removal of this claim, and of its service,"},

		{row: "approved", f: changed(func(f *Facts) { proposed(f, nil); f.File, f.FileBlob = edit, "b2" }), want: Record},
		{row: "approved and recorded", f: changed(func(f *Facts) { proposed(f, nil); f.File, f.Base, f.FileBlob = edit, edit, "b2" }), want: Withdraw},
		{row: "changed back while in review", f: changed(func(f *Facts) { proposed(f, nil); f.Live = old }), want: Withdraw},
		{row: "new, and deleted while in review", f: changed(func(f *Facts) { proposed(f, nil); created(f); f.Terminating = true }), want: Withdraw},
		{row: "not reviewed any more", f: changed(func(f *Facts) { proposed(f, verdict(VerdictOpen)); f.Review = false }), want: Commit},
		{row: "not reviewed any more, and nobody can be asked", f: changed(func(f *Facts) { proposed(f, &Verdict{State: VerdictUnknown}); f.Review = false }), want: Commit},
		{row: "rejected, and not reviewed any more", f: changed(func(f *Facts) { proposed(f, verdict(VerdictRejected)); f.Review = false }), want: Hold, why: Rejected},
		{row: "rejected and edited again, and not reviewed any more", f: changed(func(f *Facts) { proposed(f, verdict(VerdictRejected)); f.Proposed.Live, f.Review = false, false }), want: Commit},
		{row: "removal in review, and not reviewed any more", f: changed(func(f *Facts) { removal(f, verdict(VerdictOpen)); f.Review = false }), want: AwaitReview},
		{row: "removal rejected, and not reviewed any more", f: changed(func(f *Facts) { removal(f, verdict(VerdictRejected)); f.Review = false }), want: Hold, why: Rejected},
		{row: "removal rejected, and unbound with its API", f: changed(func(f *Facts) {
			removal(f, verdict(VerdictRejected))
			f.Unbinding, f.Removal = true, &guard.Verdict{}
		}), want: RemoveFile},

		{row: "open, and an emergency", f: changed(func(f *Facts) { proposed(f, verdict(VerdictOpen)); f.Emergency = "disk full" }), want: AwaitReview, words: emergencyWords},
		{row: "rejected, and an emergency", f: changed(func(f *Facts) { proposed(f, verdict(VerdictRejected)); f.Emergency = "disk full" }), want: Hold, why: Rejected, words: emergencyWords},
		{row: "rejected and edited again in an emergency", f: changed(func(f *Facts) {
			proposed(f, verdict(VerdictRejected))
			f.Proposed.Live, f.Emergency = false, "disk full"
		}), want: Commit},
		{row: "removal in review, and an emergency", f: changed(func(f *Facts) { removal(f, verdict(VerdictOpen)); f.Emergency = "disk full" }), want: AwaitReview, words: emergencyWords},
		{row: "removal pushed perhaps, and an emergency", f: changed(func(f *Facts) { removal(f, nil); f.Proposed.Begun, f.Emergency = true, "disk full" }), want: Propose},
		{row: "removal pushed perhaps after a change, and an emergency", f: changed(func(f *Facts) {
			proposed(f, nil)
			deleted(f)
			f.Proposed.Begun, f.Emergency = true, "disk full"
		}), want: Propose},
		{row: "removal in review, main moved underneath, and an emergency", f: changed(func(f *Facts) {
			removal(f, verdict(VerdictOpen))
			f.Proposed.Main, f.Emergency = "b0", "disk full"
		}), want: Propose},
		{row: "deleted in an emergency while a change is in review", f: changed(func(f *Facts) {
			proposed(f, verdict(VerdictOpen))
			deleted(f)
			f.Emergency, f.Removal = "disk full", &guard.Verdict{}
		}), want: RemoveFile},
		{row: "removal rejected, and an emergency", f: changed(func(f *Facts) { removal(f, verdict(VerdictRejected)); f.Emergency = "disk full" }), want: Hold, why: Rejected, words: emergencyWords},

		{row: "rejected, and another field changed on main", f: changed(func(f *Facts) { proposed(f, verdict(VerdictRejected)); otherField(f) }), want: Hold, why: Rejected, words: "file writes the file into it"},
		{row: "rejected, and a comment written on main", f: changed(func(f *Facts) { proposed(f, verdict(VerdictRejected)); comment(f) }), want: Hold, why: Rejected, words: "Main keeps what it says"},
		{row: "closed, and another field changed on main", f: changed(func(f *Facts) { proposed(f, verdict(VerdictClosed)); otherField(f) }), want: Hold, why: Rejected, words: "closed without being merged"},
		{row: "removal rejected, and a comment written on main", f: changed(func(f *Facts) { removal(f, verdict(VerdictRejected)); comment(f) }), want: Hold, why: Rejected, words: "the service is kept"},
		{row: "revert: rejected, and another field changed on main", f: changed(func(f *Facts) {
			proposed(f, verdict(VerdictRejected))
			otherField(f)
			f.OnRejection = v1alpha1.OnRejectionRevert
		}), want: Revert, why: Rejected},
		{row: "revert: closed, and another field changed on main", f: changed(func(f *Facts) {
			proposed(f, verdict(VerdictClosed))
			otherField(f)
			f.OnRejection = v1alpha1.OnRejectionRevert
		}), want: GiveWay, why: Rejected},
		{row: "open, and another field changed on main", f: changed(func(f *Facts) { proposed(f, verdict(VerdictOpen)); otherField(f) }), want: WriteMerged},
		{row: "nobody can be asked, and another field changed on main", f: changed(func(f *Facts) { proposed(f, &Verdict{State: VerdictUnknown}); otherField(f) }), want: WriteMerged},
		{row: "open on what main says, which is another field", f: changed(func(f *Facts) {
			proposed(f, verdict(VerdictOpen))
			otherField(f)
			f.Proposed.Main = f.FileBlob
		}), want: WriteMerged},
		{row: "lost with a restore, and another field changed on main", f: changed(func(f *Facts) { proposed(f, verdict(VerdictLost)); otherField(f) }), want: WriteMerged},
		{row: "rejected and edited again, and another field changed on main", f: changed(func(f *Facts) {
			proposed(f, verdict(VerdictRejected))
			otherField(f)
			f.Proposed.Live = false
		}), want: WriteMerged},
		{row: "pushed perhaps, and another field changed on main", f: changed(func(f *Facts) { proposed(f, verdict(VerdictRejected)); otherField(f); f.Proposed.Begun = true }), want: WriteMerged},
		{row: "closed, and main has it with more", f: changed(func(f *Facts) { proposed(f, verdict(VerdictClosed)); otherField(f); f.Merged = f.File }), want: WriteMerged},
		{row: "merged, and taken back on main with a comment", f: changed(func(f *Facts) { proposed(f, verdict(VerdictSeen)); comment(f) }), want: RebaseProposed},

		{row: "rejected, another field changed on main, and not reviewed any more", f: changed(func(f *Facts) {
			proposed(f, verdict(VerdictRejected))
			otherField(f)
			f.Review = false
		}), want: Hold, why: Rejected},
		{row: "rejected, a comment written on main, and not reviewed any more", f: changed(func(f *Facts) {
			proposed(f, verdict(VerdictRejected))
			comment(f)
			f.Review = false
		}), want: Hold, why: Rejected},
		{row: "proposed, another field changed on main, and not reviewed any more", f: changed(func(f *Facts) { proposed(f, nil); otherField(f); f.Review = false }), want: Ask},
		{row: "open, another field changed on main, and not reviewed any more", f: changed(func(f *Facts) {
			proposed(f, verdict(VerdictOpen))
			otherField(f)
			f.Review = false
		}), want: Merge},
		{row: "open, a comment written on main, and not reviewed any more", f: changed(func(f *Facts) {
			proposed(f, verdict(VerdictOpen))
			comment(f)
			f.Review = false
		}), want: Commit},
		{row: "rejected and edited again, another field changed on main, and not reviewed any more", f: changed(func(f *Facts) {
			proposed(f, verdict(VerdictRejected))
			otherField(f)
			f.Proposed.Live, f.Review = false, false
		}), want: Merge},
		{row: "closed, main has it with more, and not reviewed any more", f: changed(func(f *Facts) {
			proposed(f, verdict(VerdictClosed))
			otherField(f)
			f.Merged, f.Review = f.File, false
		}), want: Merge},
		{row: "removal rejected, a comment written on main, and not reviewed any more", f: changed(func(f *Facts) {
			removal(f, verdict(VerdictRejected))
			comment(f)
			f.Review = false
		}), want: Hold, why: Rejected},

		{row: "rejected, another field changed on main, and an emergency", f: changed(func(f *Facts) {
			proposed(f, verdict(VerdictRejected))
			otherField(f)
			f.Emergency = "disk full"
		}), want: Hold, why: Rejected, words: emergencyWords},
		{row: "rejected, a comment written on main, and an emergency", f: changed(func(f *Facts) {
			proposed(f, verdict(VerdictRejected))
			comment(f)
			f.Emergency = "disk full"
		}), want: Hold, why: Rejected, words: emergencyWords},
		{row: "open, another field changed on main, and an emergency", f: changed(func(f *Facts) {
			proposed(f, verdict(VerdictOpen))
			otherField(f)
			f.Emergency = "disk full"
		}), want: AwaitReview, words: emergencyWords},
		{row: "open, a comment written on main, and an emergency", f: changed(func(f *Facts) {
			proposed(f, verdict(VerdictOpen))
			comment(f)
			f.Emergency = "disk full"
		}), want: Propose},
		{row: "pushed once more perhaps, a comment written on main, and an emergency", f: changed(func(f *Facts) {
			proposed(f, nil)
			comment(f)
			f.Proposed.Begun, f.Emergency = true, "disk full"
		}), want: Propose},
		{row: "pushed once more perhaps, another field changed on main, and an emergency", f: changed(func(f *Facts) {
			proposed(f, verdict(VerdictOpen))
			otherField(f)
			f.Proposed.Begun, f.Emergency = true, "disk full"
		}), want: AwaitReview, words: emergencyWords},
		{row: "pushed once more perhaps, and not reviewed any more", f: changed(func(f *Facts) { proposed(f, nil); f.Proposed.Begun, f.Review = true, false }), want: Commit},
		{row: "edited while in review, another field changed on main, and an emergency", f: changed(func(f *Facts) {
			proposed(f, verdict(VerdictOpen))
			otherField(f)
			f.Proposed.Live, f.Emergency = false, "disk full"
		}), want: Merge},

		{row: "released by a person", f: changed(func(f *Facts) { proposed(f, nil); f.Terminating, f.Finalizer = true, false }), want: Nothing},
		{row: "history in doubt", f: changed(func(f *Facts) { proposed(f, nil); f.Live, f.Replaced = old, "restored" }), want: Hold, why: HistoryReplaced},
		{row: "too often", f: changed(func(f *Facts) { f.ManyWrites = "spec.plan" }), want: Hold, why: ManyWrites},
		{row: "new, too often", f: changed(func(f *Facts) { proposed(f, nil); created(f); f.Proposed.Live, f.ManyWrites = false, "spec.plan" }), want: Hold, why: ManyWrites},
	} {
		t.Run(tc.row, func(t *testing.T) {
			d := For(tc.f)
			if d.Action != tc.want || d.Reason != tc.why || !strings.Contains(d.Message, tc.words) {
				t.Errorf("%s for %q: %s, want %s for %q: …%s…", d.Action, d.Reason, d.Message, tc.want, tc.why, tc.words)
			}
		})
	}

	// A decision is proposed, and can be rejected. What can be decided then is what is
	// offered then, whatever the decision was about.
	for _, tc := range []struct {
		row     string
		f       Facts
		decided choice.Choice
		then    choice.Choice
		want    Action
	}{
		{"deleted where only Git writes", changed(func(f *Facts) { deleted(f); f.Writer = v1alpha1.WriterGit }), choice.Delete, choice.Release, Withdraw},
		{"deleted, and changed on main", changed(func(f *Facts) { deleted(f); f.File = other }), choice.Delete, choice.Release, Withdraw},
		{"deleted, and back on main", changed(func(f *Facts) { deleted(f); f.BaseRemoved = true }), choice.Delete, choice.Release, Withdraw},
		{"deleted with its namespace", changed(func(f *Facts) { deleted(f); f.Ending = NamespaceEnds }), choice.Delete, choice.Release, Withdraw},
		{"the commit is lost", changed(func(f *Facts) { f.File, f.Continues = other, No }), choice.Cluster, choice.File, GiveWay},
		{"removed where only the cluster writes", changed(func(f *Facts) { f.File, f.Live, f.Writer = other, old, v1alpha1.WriterCluster }), choice.Cluster, choice.File, Write},
	} {
		f := tc.f
		f.Resolve = tc.decided.Answer(For(f).Token)
		if d := For(f); d.Action != Propose || d.Chosen != tc.decided {
			t.Errorf("%s: %s is not proposed: %s %s", tc.row, tc.decided, d.Action, d.Message)
			continue
		}
		f.Proposed, f.Verdict = &Proposed{Branch: branch, Commit: "c1", Main: "b1"}, verdict(VerdictRejected)
		if !f.Terminating {
			f.Proposed.Blob, f.Proposed.Live = "b2", true
		}
		d := For(f)
		if d.Action != Hold || d.Reason != Rejected || strings.Contains(d.Message, "Nothing was done") {
			t.Errorf("%s: %s is rejected: %s %s: %s", tc.row, tc.decided, d.Action, d.Reason, d.Message)
			continue
		}
		f.Resolve = tc.then.Answer(d.Token)
		if d := For(f); d.Action != tc.want || d.Chosen != tc.then {
			t.Errorf("%s: after %s: %s %s: %s", tc.row, tc.then, d.Action, d.Reason, d.Message)
		}
		// What was proposed is withdrawn first, and the decision counts after that.
		f.Proposed, f.Verdict = nil, nil
		if d := For(f); d.Action == Hold || d.Chosen != tc.then {
			t.Errorf("%s: after %s, withdrawn: %s %s: %s", tc.row, tc.then, d.Action, d.Reason, d.Message)
		}
	}

	for _, onMain := range []func(*Facts){func(*Facts) {}, comment, otherField} {
		f := changed(func(f *Facts) { proposed(f, verdict(VerdictRejected)); onMain(f) })
		f.Resolve = choice.File.Answer(For(f).Token)
		if d := For(f); d.Action != Revert || d.Chosen != choice.File {
			t.Errorf("after a person has decided for the file: %s, chosen %q", d.Action, d.Chosen)
		}
	}

	// What a person decides on another file than the one that main had is another change.
	f := changed(func(f *Facts) { proposed(f, verdict(VerdictRejected)); f.File, f.FileBlob = nil, "" })
	f.Resolve = choice.Keep.Answer(For(f).Token)
	for _, tc := range []struct {
		review    bool
		emergency string
		want      Action
	}{{true, "", Propose}, {false, "", Commit}, {true, "disk full", Commit}} {
		f.Review, f.Emergency = tc.review, tc.emergency
		if d := For(f); d.Action != tc.want || d.Chosen != choice.Keep {
			t.Errorf("kept, reviewed %t, emergency %q: %s, chosen %q", tc.review, tc.emergency, d.Action, d.Chosen)
		}
	}
}

// However unlikely the facts are: nothing reaches main without a review but what was changed
// in an emergency, or where changes are reviewed no more, and the promises that hold without
// one hold.
func TestReviewKeepsThePromises(t *testing.T) {
	t.Parallel()
	n := 0
	for f := range allFacts() {
		if n++; n%1997 != 0 {
			continue
		}
		for _, state := range []VerdictState{"", VerdictUnknown, VerdictOpen, VerdictRejected, VerdictClosed, VerdictLost, VerdictMerged, VerdictSeen} {
			for bits := range 1 << 7 {
				g := f
				g.Review = bits&16 == 0
				if bits&32 != 0 {
					g.Emergency = "disk full"
				}
				if state != "" {
					g.Verdict = &Verdict{State: state, By: "bob", Message: "too big"}
				}
				if bits&1 != 0 {
					g.Proposed = &Proposed{Branch: "changes/b/team-a/orders", Commit: "c1", Main: g.FileBlob, Live: bits&2 != 0}
				}
				if bits&64 != 0 && g.Proposed != nil {
					g.Proposed.Main = "b0"
				}
				if bits&4 != 0 && g.Proposed != nil && !g.Terminating {
					g.Proposed.Blob = "b2"
				}
				if bits&8 != 0 {
					g.OnRejection = v1alpha1.OnRejectionRevert
				}
				for h, d := range withDecisions(g) {
					checkReview(t, h, d)
				}
			}
		}
	}
}

func checkReview(t *testing.T, f Facts, d Decision) {
	for _, p := range promises {
		if p.broken(f, d) {
			t.Fatalf("%s: %s %s for %s", p.name, d.Action, d.Reason, describe(f))
		}
	}
	rejected := f.Verdict != nil && (f.Verdict.State == VerdictRejected || f.Verdict.State == VerdictClosed)
	p := f.Proposed
	// Whatever main's file is by now, unless it has what was proposed, or a person has decided on it.
	asProposed := (d.Action == Commit || d.Action == Merge && !contract.Equal(f.Merged, f.File)) &&
		p != nil && p.Blob != "" && p.Live && (d.Chosen == "" || p.Main == f.FileBlob)
	switch {
	case f.reviewed() && (d.Action == Commit || d.Action == Merge || d.Action == RemoveFile):
		t.Fatalf("%s without a review for %s", d.Action, describe(f))
	case d.Action == RemoveFile && p != nil && p.Blob == "", asProposed && (rejected || f.Review):
		t.Fatalf("%s of what was proposed, and not approved, for %s", d.Action, describe(f))
	case d.Action == AwaitReview && (f.Proposed == nil || d.Message == ""):
		t.Fatalf("it waits for nothing, or does not say so: %s", describe(f))
	case d.Action == WriteMerged && (f.Merged == nil || f.Terminating || contract.Equal(f.Live, f.Base)):
		t.Fatalf("what nobody changed is merged: %s", describe(f))
	case d.Action == Revert && (f.File == nil || f.Verdict == nil || f.Verdict.State != VerdictRejected):
		t.Fatalf("what was not rejected is taken back: %s", describe(f))
	}
}
