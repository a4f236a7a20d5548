package decision

import (
	"errors"
	"testing"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/guard"
)

var key = contract.Key{Binding: "postgresqlinstances.anynines.com", Namespace: "team-a", Name: "orders"}

func version(plan string) *contract.Claim {
	return &contract.Claim{
		APIVersion: "anynines.com/v1", Kind: "PostgresqlInstance", Namespace: key.Namespace, Name: key.Name,
		Spec: map[string]any{"plan": plan},
	}
}

var (
	old    = version("old")
	edit   = version("edited in the cluster")
	edit2  = version("edited in the cluster again")
	other  = version("edited in Git")
	lost   = &Lost{Reason: BothChanged, Branch: "conflicts/b/team-a/orders/1234567890", Fields: []string{"spec.plan"}, Users: []string{"alice"}}
	errBad = errors.New("bindings/…/orders.yaml:3: spec is no object")
)

// The rows of the table in the design, in its order, and what lies between.
func TestFor(t *testing.T) {
	const (
		no  = No
		yes = Yes
	)
	for _, tc := range []struct {
		row  string
		f    Facts
		want Action
		why  Reason
		ask  Question
		// foreign says that the base is not of this main, or Connection.
		foreign bool
	}{
		{row: "equal, base recorded", f: Facts{Live: old, File: old, Base: old, Finalizer: true, BaseCurrent: true}, want: Nothing},
		{row: "equal, there and back", f: Facts{Live: old, File: old, Base: old, Touched: true, Finalizer: true, BaseCurrent: true}, want: Record},
		{row: "equal, no base", f: Facts{Live: old, File: old, Finalizer: true}, want: Record},
		{row: "equal, base is older", f: Facts{Live: edit, File: edit, Base: old, Finalizer: true, BaseCurrent: true}, want: Record},
		{row: "equal, base of an earlier connection", f: Facts{Live: old, File: old, Base: old, Finalizer: true}, want: Record, foreign: true},
		{row: "equal, finalizer taken off", f: Facts{Live: old, File: old, Base: old, BaseCurrent: true}, want: Record},
		{row: "equal, a removal was reverted before the delete", f: Facts{Live: old, File: old, Base: old, Finalizer: true, BaseCurrent: true, BaseRemoved: true}, want: Record},

		{row: "changed | = base", f: Facts{Live: edit, File: old, Base: old}, want: Commit},
		{row: "changed | = base, not known whether that goes to and fro", f: Facts{Live: edit, File: old, Base: old}, want: Ask, ask: AskFlips},
		{row: "changed | = base, too often", f: Facts{Live: edit, File: old, Base: old, ManyWrites: "spec.plan"}, want: Hold, why: ManyWrites},
		{row: "= base | changed, too often", f: Facts{Live: old, File: other, Base: old, ManyWrites: "spec.plan"}, want: Hold, why: ManyWrites},
		{row: "Git writes: changed | = base, too often", f: Facts{Live: edit, File: old, Base: old, Writer: v1alpha1.WriterGit, ManyWrites: "spec.plan"}, want: Hold, why: ManyWrites},
		{row: "= base | removed, after too many writes", f: Facts{Live: old, Base: old, Continues: yes, ManyWrites: "spec.plan"}, want: Delete},
		{row: "terminating, after too many writes", f: Facts{Live: old, File: old, Base: old, Terminating: true, Finalizer: true, ManyWrites: "spec.plan"}, want: RemoveFile},
		{row: "in step, after too many writes", f: Facts{Live: old, File: old, Base: old, Finalizer: true, ManyWrites: "spec.plan"}, want: Nothing},
		{row: "changed | = base, to and fro", f: Facts{Live: edit, File: old, Base: old, Flips: yes}, want: Hold, why: FlipFlop},
		{row: "new, no base | absent", f: Facts{Live: edit}, want: Commit},
		{row: "new, no base | present, differs", f: Facts{Live: edit, File: other}, want: Ask, ask: AskOwnWork},
		{row: "new, no base | present, differs, of others", f: Facts{Live: edit, File: other, OwnWork: no}, want: GiveWay, why: BothExist},
		{row: "new, no base | present, differs, refused by the API server", f: Facts{Live: edit, File: other, OwnWork: no, Refusal: "spec.plan"}, want: Hold, why: FileRefused},
		{row: "no base yet | pushed by ourselves", f: Facts{Live: edit, File: other, OwnWork: yes}, want: Rebase},
		{row: "= base | changed", f: Facts{Live: old, File: other, Base: old}, want: Write},

		{row: "= base, touched | changed", f: Facts{Live: old, File: other, Base: old, Touched: true}, want: Ask, ask: AskOwnWork},
		{row: "= base, touched | changed by others", f: Facts{Live: old, File: other, Base: old, Touched: true, OwnWork: no}, want: Write},
		{row: "= base, there and back | there, by ourselves", f: Facts{Live: old, File: other, Base: old, Touched: true, OwnWork: yes}, want: Rebase},
		{row: "= base, proposed | changed", f: Facts{Live: old, File: other, Base: old, Proposed: &Proposed{}}, want: Ask, ask: AskOwnWork},
		{row: "= base, proposed and taken back | merged", f: Facts{Live: old, File: other, Base: old, Proposed: &Proposed{}, OwnWork: yes}, want: Rebase},
		{row: "= base, proposed | changed by others", f: Facts{Live: old, File: other, Base: old, Proposed: &Proposed{}, OwnWork: no}, want: Write},
		{row: "= base, touched | removed", f: Facts{Live: old, Base: old, Touched: true, Continues: yes}, want: Hold, why: ChangedAndRemoved},
		{row: "= base | removed", f: Facts{Live: old, Base: old}, want: Ask, ask: AskContinues},
		{row: "= base | removed by a commit since", f: Facts{Live: old, Base: old, Continues: yes}, want: Delete},
		{row: "= base | removed, was to go already", f: Facts{Live: old, Base: old, BaseRemoved: true, Continues: yes}, want: Delete},
		{row: "= base | removed, one of many?", f: Facts{Live: old, Base: old, Continues: yes}, want: Ask, ask: AskRemoval},
		{row: "= base | moved", f: Facts{Live: old, Base: old, Continues: yes, Removal: &guard.Verdict{Reason: contract.Moved, Message: "it went"}}, want: Hold, why: Moved},
		{row: "= base | removed, one of many", f: Facts{Live: old, Base: old, Continues: yes, Removal: &guard.Verdict{Reason: contract.ManyRemovals, Message: "five at once"}}, want: Hold, why: ManyRemovals},
		{row: "= base | not there, and no commit removed it", f: Facts{Live: old, Base: old, Continues: no}, want: Hold, why: FileMissing},

		{row: "changed | changed", f: Facts{Live: edit, File: other, Base: old}, want: Ask, ask: AskOwnWork},
		{row: "changed | changed by others", f: Facts{Live: edit, File: other, Base: old, OwnWork: no}, want: Ask, ask: AskMerge},
		{row: "changed | changed, other fields", f: Facts{Live: edit, File: other, Base: old, OwnWork: no, Merges: yes}, want: Merge},
		{row: "changed | changed, same field", f: Facts{Live: edit, File: other, Base: old, OwnWork: no, Merges: no}, want: GiveWay, why: BothChanged},
		{row: "changed | changed, other fields, the API server refuses both together", f: Facts{Live: edit, File: other, Base: old, OwnWork: no, Merges: yes, MergeRefusal: "spec"}, want: GiveWay, why: BothChanged},
		{row: "changed | changed, the API server refuses the file", f: Facts{Live: edit, File: other, Base: old, OwnWork: no, Merges: no, Refusal: "spec"}, want: Hold, why: FileRefused},
		{row: "changed | changed by others since we pushed the same", f: Facts{Live: edit, File: other, Base: old, OwnWork: no, Interrupted: AllPushed}, want: Write},
		{row: "changed | changed by others since we pushed another version", f: Facts{Live: edit, File: other, Base: old, OwnWork: no, Interrupted: EditedSince}, want: GiveWay, why: BothChanged},
		{row: "there and back | changed by others since we pushed the way there", f: Facts{Live: old, Touched: true, File: other, Base: old, OwnWork: no, Interrupted: EditedSince}, want: GiveWay, why: BothChanged},
		{row: "changed | changed by ourselves", f: Facts{Live: edit, File: other, Base: old, OwnWork: yes}, want: Rebase},
		{row: "no base yet | absent", f: Facts{Live: edit, Finalizer: true}, want: Ask, ask: AskOwnWork},
		{row: "no base yet | never there", f: Facts{Live: edit, Finalizer: true, OwnWork: no}, want: Commit},
		{row: "no base yet | removed since we pushed it", f: Facts{Live: edit, Finalizer: true, OwnWork: no, Interrupted: EditedSince}, want: Hold, why: ChangedAndRemoved},
		{row: "no base yet | absent, and the history is too long", f: Facts{Live: edit, Finalizer: true, OwnWork: no, HistoryTooLong: true}, want: Hold, why: HistoryTooLong},
		{row: "no base yet | absent, and the history is too long, but not what tells of a push", f: Facts{Live: edit, Finalizer: true, OwnWork: no, Interrupted: EditedSince, HistoryTooLong: true}, want: Hold, why: ChangedAndRemoved},
		{row: "L7: its base was taken away | absent, and the history is too long", f: Facts{Live: edit, BaseCommit: "c1", Continues: no, HistoryTooLong: true}, want: Hold, why: HistoryTooLong},
		{row: "= base | not there, and the history is too long", f: Facts{Live: old, Base: old, Continues: no, HistoryTooLong: true}, want: Hold, why: HistoryTooLong},
		{row: "= base | changed, and the history is too long", f: Facts{Live: old, File: other, Base: old, Continues: no, OwnWork: no, HistoryTooLong: true}, want: Hold, why: HistoryTooLong},
		{row: "= base | changed by ourselves, and the history is too long", f: Facts{Live: old, File: other, Base: old, Continues: no, OwnWork: yes, HistoryTooLong: true}, want: Rebase},
		{row: "changed | changed, and the history is too long", f: Facts{Live: edit, File: other, Base: old, OwnWork: no, Merges: yes, HistoryTooLong: true}, want: GiveWay, why: BothChanged},
		{row: "= base, touched | changed, and the history is too long", f: Facts{Live: old, File: other, Base: old, Touched: true, OwnWork: no, HistoryTooLong: true}, want: GiveWay, why: BothChanged},
		{row: "L7: its base was taken away | removed", f: Facts{Live: edit, BaseCommit: "c1", Continues: yes}, want: Hold, why: ChangedAndRemoved},
		{row: "L7: its base was taken away | removed?", f: Facts{Live: edit, BaseCommit: "c1"}, want: Ask, ask: AskContinues},
		{row: "L7: its base was taken away | absent, and main is another one", f: Facts{Live: edit, BaseCommit: "c1", Continues: no}, want: Commit},
		{row: "L7: its base was taken away | pushed by ourselves", f: Facts{Live: edit, BaseCommit: "c1", File: other, OwnWork: yes}, want: Rebase},
		{row: "changed | removed", f: Facts{Live: edit, Base: old, Continues: yes}, want: Hold, why: ChangedAndRemoved},

		{row: "any | present, refused by the API server", f: Facts{Live: old, File: other, Base: old, Refusal: "spec.plan: Unsupported value"}, want: Hold, why: FileRefused},
		{row: "absent | present, refused by the API server", f: Facts{File: other, Refusal: "spec.plan: Unsupported value"}, want: Hold, why: FileRefused},
		{row: "absent | present, no namespace", f: Facts{File: other, NamespaceMissing: true}, want: Hold, why: NamespaceMissing},
		{row: "any | no claim", f: Facts{Live: edit, Problem: errBad, Base: old}, want: Hold, why: FileInvalid},
		{row: "absent | no claim", f: Facts{Problem: errBad}, want: Hold, why: FileInvalid},

		{row: "terminating by a user | = base", f: Facts{Live: old, Terminating: true, Finalizer: true, File: old, Base: old}, want: RemoveFile},
		{row: "terminating by a user, one of many? | = base", f: Facts{Live: old, Terminating: true, Finalizer: true, File: old, Base: old}, want: Ask, ask: AskRemoval},
		{row: "terminating by a user, one of many | = base", f: Facts{Live: old, Terminating: true, Finalizer: true, File: old, Base: old, Removal: &guard.Verdict{Reason: contract.ManyRemovals, Message: "five at once"}}, want: Hold, why: ManyRemovals},
		{row: "terminating by a user, edited before | = base", f: Facts{Live: edit, Terminating: true, Finalizer: true, File: old, Base: old}, want: RemoveFile},
		{row: "terminating by a user | = CR, no base", f: Facts{Live: edit, Terminating: true, Finalizer: true, File: edit}, want: RemoveFile},
		{row: "terminating by a user | = CR, base is older", f: Facts{Live: edit, Terminating: true, Finalizer: true, File: edit, Base: old}, want: RemoveFile},
		{row: "terminating by a user | changed", f: Facts{Live: old, Terminating: true, Finalizer: true, File: other, Base: old}, want: Ask, ask: AskOwnWork},
		{row: "terminating by a user | changed by others", f: Facts{Live: old, Terminating: true, Finalizer: true, File: other, Base: old, OwnWork: no}, want: Hold, why: DeletedAndChanged},
		{row: "terminating by a user | changed by ourselves", f: Facts{Live: edit, Terminating: true, Finalizer: true, File: other, Base: old, OwnWork: yes}, want: RemoveFile},
		{row: "terminating by a user | made independently", f: Facts{Live: edit, Terminating: true, Finalizer: true, File: other, OwnWork: no}, want: Hold, why: DeletedAndChanged},
		{row: "terminating by a user | no claim", f: Facts{Live: old, Terminating: true, Finalizer: true, Problem: errBad, Base: old}, want: Hold, why: DeletedAndChanged},
		{row: "terminating with its namespace | = base", f: Facts{Live: old, Terminating: true, Ending: NamespaceEnds, Finalizer: true, File: old, Base: old}, want: Hold, why: NamespaceDeleted},
		{row: "L4: terminating with its owner | = base", f: Facts{Live: old, Terminating: true, Ending: OwnerEnds, Finalizer: true, File: old, Base: old}, want: Hold, why: OwnerDeleted},
		{row: "terminating with its CRD | = base", f: Facts{Live: old, Terminating: true, Ending: APIEnds, Finalizer: true, File: old, Base: old}, want: Hold, why: APIDeleted},

		{row: "terminating, the file went | back again", f: Facts{Live: old, Terminating: true, Finalizer: true, File: old, Base: old, BaseRemoved: true}, want: Hold, why: FileCameBack},
		{row: "terminating | absent", f: Facts{Live: old, Terminating: true, Finalizer: true, Base: old}, want: Ask, ask: AskGone},
		{row: "terminating | absent, tombstone", f: Facts{Live: old, Terminating: true, Finalizer: true, Base: old, BaseRemoved: true, Gone: yes}, want: Release},
		{row: "terminating | absent, no tombstone", f: Facts{Live: old, Terminating: true, Finalizer: true, Base: old, BaseRemoved: true, Gone: no}, want: Wait},
		{row: "terminating | absent, not recorded", f: Facts{Live: old, Terminating: true, Finalizer: true, Base: old, Gone: no}, want: RecordRemoved},
		{row: "terminating | absent, never committed, no answer yet", f: Facts{Live: edit, Terminating: true, Finalizer: true, Gone: no}, want: Wait},
		{row: "terminating, released by a person | present", f: Facts{Live: old, Terminating: true, File: old, Base: old}, want: Nothing},
		{row: "terminating, its namespace is gone | = base", f: Facts{Live: old, Terminating: true, Ending: NamespaceEnds, NamespaceMissing: true, Finalizer: true, File: old, Base: old}, want: Hold, why: NamespaceDeleted},
		{row: "terminating, its namespace is gone | absent", f: Facts{Live: old, Terminating: true, Ending: NamespaceEnds, NamespaceMissing: true, Finalizer: true, Base: old, Gone: yes}, want: Hold, why: NamespaceDeleted},
		{row: "released, its namespace is gone", f: Facts{Live: old, Terminating: true, Ending: NamespaceEnds, NamespaceMissing: true, File: old, Base: old}, want: Nothing},
		{row: "= base | changed, its namespace is gone", f: Facts{Live: old, NamespaceMissing: true, Finalizer: true, File: other, Base: old, BaseCurrent: true}, want: Hold, why: NamespaceDeleted},
		{row: "terminating with its namespace, the file went", f: Facts{Live: old, Terminating: true, Ending: NamespaceEnds, Finalizer: true, Base: old, BaseRemoved: true, Gone: yes}, want: Release},

		{row: "absent | present", f: Facts{File: other}, want: Create},
		{row: "absent | absent", f: Facts{}, want: Nothing},

		{row: "equal, a conflict was lost", f: Facts{Live: old, File: old, Base: old, Finalizer: true, BaseCurrent: true, Lost: lost}, want: Nothing, why: BothChanged},
		{row: "changed after a conflict was lost | = base", f: Facts{Live: edit, File: old, Base: old, Lost: lost}, want: Commit},

		{row: "Git writes: changed | = base", f: Facts{Live: edit, File: old, Base: old, Writer: v1alpha1.WriterGit}, want: GiveWay, why: GitWrites},
		{row: "Git writes: changed | changed", f: Facts{Live: edit, File: other, Base: old, OwnWork: no, Writer: v1alpha1.WriterGit}, want: GiveWay, why: GitWrites},
		{row: "Git writes: new | absent", f: Facts{Live: edit, Writer: v1alpha1.WriterGit}, want: Hold, why: GitWrites},
		{row: "Git writes: = base | changed", f: Facts{Live: old, File: other, Base: old, Writer: v1alpha1.WriterGit}, want: Write},
		{row: "Git writes: = base | removed", f: Facts{Live: old, Base: old, Continues: yes, Writer: v1alpha1.WriterGit}, want: Delete},
		{row: "Git writes: terminating by a user | = base", f: Facts{Live: old, Terminating: true, Finalizer: true, File: old, Base: old, Writer: v1alpha1.WriterGit}, want: Hold, why: GitWrites},
		{row: "the cluster writes: changed | = base", f: Facts{Live: edit, File: old, Base: old, Writer: v1alpha1.WriterCluster}, want: Commit},
		{row: "the cluster writes: = base | changed", f: Facts{Live: old, File: other, Base: old, Writer: v1alpha1.WriterCluster}, want: Hold, why: ClusterWrites},
		{row: "the cluster writes: = base | removed", f: Facts{Live: old, Base: old, Continues: yes, Writer: v1alpha1.WriterCluster}, want: Hold, why: ClusterWrites},
		{row: "the cluster writes: changed | changed", f: Facts{Live: edit, File: other, Base: old, OwnWork: no, Writer: v1alpha1.WriterCluster}, want: Hold, why: ClusterWrites},
		{row: "the cluster writes: new | present, differs", f: Facts{Live: edit, File: other, OwnWork: no, Writer: v1alpha1.WriterCluster}, want: Hold, why: ClusterWrites},
		{row: "the cluster writes: absent | present", f: Facts{File: other, Writer: v1alpha1.WriterCluster}, want: Create},
		{row: "paused", f: Facts{Live: edit, File: old, Base: old, Paused: true}, want: Hold, why: Paused},
		{row: "paused, terminating", f: Facts{Live: old, File: old, Base: old, Paused: true, Terminating: true, Finalizer: true}, want: Hold, why: Paused},

		{row: "name too long for a path", f: Facts{Live: edit, Unfit: errors.New("name of 220 characters: the longest is 200")}, want: Hold, why: NameUnfit},
		{row: "name too long for a path, terminating", f: Facts{Live: edit, Unfit: errors.New("name of 220 characters"), Terminating: true, Finalizer: true, Gone: yes}, want: Release},

		{row: "= base that is not of this main | differs", f: Facts{Live: old, File: other, Base: old}, want: Ask, ask: AskOwnWork, foreign: true},
		{row: "= base that is not of this main | differs, of others", f: Facts{Live: old, File: other, Base: old, OwnWork: no}, want: GiveWay, why: BothExist, foreign: true},
		{row: "changed, base not of this main | differs, of others", f: Facts{Live: edit, File: other, Base: old, OwnWork: no, Merges: yes}, want: GiveWay, why: BothExist, foreign: true},
		{row: "changed, base not of this main | = base", f: Facts{Live: edit, File: old, Base: old}, want: Commit, foreign: true},

		{row: "L3: = base, whose commit main lacks | differs, of others", f: Facts{Live: old, File: other, Base: old, Continues: no, OwnWork: no}, want: Hold, why: CommitLost},
		{row: "L3: = base, whose commit main lacks? | differs", f: Facts{Live: old, File: other, Base: old}, want: Ask, ask: AskContinues},
		{row: "L3: = base, whose commit main lacks | differs, by ourselves?", f: Facts{Live: old, File: other, Base: old, Continues: no}, want: Ask, ask: AskOwnWork},
		{row: "L3: = base, whose commit main lacks | differs, by ourselves", f: Facts{Live: old, File: other, Base: old, Continues: no, OwnWork: yes}, want: Rebase},
		{row: "L3: changed, main lacks the commit of base | differs, of others", f: Facts{Live: edit, File: other, Base: old, Continues: no, OwnWork: no, Merges: yes}, want: Hold, why: CommitLost},
		{row: "L3: changed, main lacks the commit of base | = base", f: Facts{Live: edit, File: old, Base: old, Continues: no}, want: Commit},
		{row: "L3: terminating by a user, main lacks the commit of base | differs", f: Facts{Live: old, Terminating: true, Finalizer: true, File: other, Base: old, Continues: no, OwnWork: no}, want: Hold, why: DeletedAndChanged},

		{row: "not of this connection", f: Facts{Live: edit, Elsewhere: "not here"}, want: Hold, why: NotServed},
		{row: "not of this connection any more", f: Facts{Live: old, File: other, Base: old, Elsewhere: "not here"}, want: Hold, why: NotServed},
		{row: "not of this connection, a file alone", f: Facts{File: other, Elsewhere: "not here"}, want: Hold, why: NotServed},
		{row: "not of this connection, neither", f: Facts{Elsewhere: "not here"}, want: Nothing},
		{row: "never of this connection, terminating", f: Facts{Live: edit, Terminating: true, Finalizer: true, Elsewhere: "not here"}, want: Release},
		{row: "not of this connection any more, terminating", f: Facts{Live: old, File: old, Base: old, Terminating: true, Finalizer: true, Elsewhere: "not here"}, want: Hold, why: NotServed},
		{row: "not of this connection, released", f: Facts{Live: old, File: old, Base: old, Terminating: true, Elsewhere: "not here"}, want: Nothing},

		{row: "two copies are live, and in step", f: Facts{Live: old, File: old, Base: old, Finalizer: true, BaseCurrent: true, Copied: "Two live copies."}, want: Nothing},
		{row: "two copies are live", f: Facts{Live: edit, File: old, Base: old, Copied: "Two live copies."}, want: Hold, why: Copied},
		{row: "main was replaced, yet equal", f: Facts{Live: old, File: old, Base: old, Finalizer: true, BaseCurrent: true, Replaced: "The repository was restored."}, want: Nothing},
		{row: "main was replaced", f: Facts{Live: edit, File: old, Base: old, Replaced: "The repository was restored."}, want: Hold, why: HistoryReplaced},
	} {
		t.Run(tc.row, func(t *testing.T) {
			tc.f.Key = key
			tc.f.BaseCurrent = tc.f.Base != nil && !tc.foreign
			if tc.f.Removal == nil && tc.ask != AskRemoval {
				tc.f.Removal = &guard.Verdict{}
			}
			if tc.f.Continues == Unasked && tc.ask != AskContinues {
				tc.f.Continues = yes
			}
			if tc.f.Flips == Unasked && tc.ask != AskFlips {
				tc.f.Flips = no
			}
			d := For(tc.f)
			if d.Action != tc.want || d.Reason != tc.why || d.Question != tc.ask {
				t.Errorf("got %s %s%s, want %s %s%s", d.Action, d.Reason, d.Question, tc.want, tc.why, tc.ask)
			}
		})
	}
}
