package decision

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"gitbind.dev/gitbridge/claim"
)

var key = claim.Key{Binding: "postgresqlinstances.anynines.com", Namespace: "team-a", Name: "orders"}

func version(plan string) *claim.Claim {
	return &claim.Claim{
		APIVersion: "anynines.com/v1", Kind: "PostgresqlInstance", Namespace: key.Namespace, Name: key.Name,
		Spec: map[string]any{"plan": plan},
	}
}

var (
	old    = version("old")
	edit   = version("edited in the cluster")
	other  = version("edited in Git")
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
	}{
		{row: "equal, base recorded", f: Facts{Live: old, File: old, Base: old, Finalizer: true, BaseCurrent: true}, want: Nothing},
		{row: "equal, there and back", f: Facts{Live: old, File: old, Base: old, Touched: true, Finalizer: true, BaseCurrent: true}, want: Record},
		{row: "equal, no base", f: Facts{Live: old, File: old, Finalizer: true}, want: Record},
		{row: "equal, base is older", f: Facts{Live: edit, File: edit, Base: old, Finalizer: true, BaseCurrent: true}, want: Record},
		{row: "equal, base of an earlier connection", f: Facts{Live: old, File: old, Base: old, Finalizer: true}, want: Record},
		{row: "equal, finalizer taken off", f: Facts{Live: old, File: old, Base: old, BaseCurrent: true}, want: Record},
		{row: "equal, a removal was reverted before the delete", f: Facts{Live: old, File: old, Base: old, Finalizer: true, BaseCurrent: true, BaseRemoved: true}, want: Record},

		{row: "changed | = base", f: Facts{Live: edit, File: old, Base: old}, want: Commit},
		{row: "new, no base | absent", f: Facts{Live: edit}, want: Commit},
		{row: "new, no base | present, differs", f: Facts{Live: edit, File: other}, want: Ask, ask: AskOwnWork},
		{row: "new, no base | present, differs, of others", f: Facts{Live: edit, File: other, OwnWork: no}, want: Hold, why: BothExist},
		{row: "no base yet | pushed by ourselves", f: Facts{Live: edit, File: other, OwnWork: yes}, want: Rebase},
		{row: "= base | changed", f: Facts{Live: old, File: other, Base: old}, want: Write},

		{row: "= base, touched | changed", f: Facts{Live: old, File: other, Base: old, Touched: true}, want: Ask, ask: AskOwnWork},
		{row: "= base, touched | changed by others", f: Facts{Live: old, File: other, Base: old, Touched: true, OwnWork: no}, want: Write},
		{row: "= base, there and back | there, by ourselves", f: Facts{Live: old, File: other, Base: old, Touched: true, OwnWork: yes}, want: Rebase},
		{row: "= base, touched | removed", f: Facts{Live: old, Base: old, Touched: true, Continues: yes}, want: Hold, why: ChangedAndRemoved},
		{row: "= base | removed", f: Facts{Live: old, Base: old}, want: Ask, ask: AskContinues},
		{row: "= base | removed by a commit since", f: Facts{Live: old, Base: old, Continues: yes}, want: Delete},
		{row: "= base | removed, was to go already", f: Facts{Live: old, Base: old, BaseRemoved: true, Continues: yes}, want: Delete},
		{row: "= base | not there, and no commit removed it", f: Facts{Live: old, Base: old, Continues: no}, want: Hold, why: FileMissing},

		{row: "changed | changed", f: Facts{Live: edit, File: other, Base: old}, want: Ask, ask: AskOwnWork},
		{row: "changed | changed by others", f: Facts{Live: edit, File: other, Base: old, OwnWork: no}, want: Hold, why: BothChanged},
		{row: "changed | changed by ourselves", f: Facts{Live: edit, File: other, Base: old, OwnWork: yes}, want: Rebase},
		{row: "changed | removed", f: Facts{Live: edit, Base: old, Continues: yes}, want: Hold, why: ChangedAndRemoved},

		{row: "any | present, refused by the API server", f: Facts{Live: old, File: other, Base: old, Refusal: "spec.plan: Unsupported value"}, want: Hold, why: FileRefused},
		{row: "absent | present, refused by the API server", f: Facts{File: other, Refusal: "spec.plan: Unsupported value"}, want: Hold, why: FileRefused},
		{row: "absent | present, no namespace", f: Facts{File: other, NamespaceMissing: true}, want: Hold, why: NamespaceMissing},
		{row: "any | no claim", f: Facts{Live: edit, Problem: errBad, Base: old}, want: Hold, why: FileInvalid},
		{row: "absent | no claim", f: Facts{Problem: errBad}, want: Hold, why: FileInvalid},

		{row: "terminating by a user | = base", f: Facts{Live: old, Terminating: true, Finalizer: true, File: old, Base: old}, want: RemoveFile},
		{row: "terminating by a user, edited before | = base", f: Facts{Live: edit, Terminating: true, Finalizer: true, File: old, Base: old}, want: RemoveFile},
		{row: "terminating by a user | = CR, no base", f: Facts{Live: edit, Terminating: true, Finalizer: true, File: edit}, want: RemoveFile},
		{row: "terminating by a user | = CR, base is older", f: Facts{Live: edit, Terminating: true, Finalizer: true, File: edit, Base: old}, want: RemoveFile},
		{row: "terminating by a user | changed", f: Facts{Live: old, Terminating: true, Finalizer: true, File: other, Base: old}, want: Ask, ask: AskOwnWork},
		{row: "terminating by a user | changed by others", f: Facts{Live: old, Terminating: true, Finalizer: true, File: other, Base: old, OwnWork: no}, want: Hold, why: DeletedAndChanged},
		{row: "terminating by a user | changed by ourselves", f: Facts{Live: edit, Terminating: true, Finalizer: true, File: other, Base: old, OwnWork: yes}, want: RemoveFile},
		{row: "terminating by a user | made independently", f: Facts{Live: edit, Terminating: true, Finalizer: true, File: other, OwnWork: no}, want: Hold, why: DeletedAndChanged},
		{row: "terminating by a user | no claim", f: Facts{Live: old, Terminating: true, Finalizer: true, Problem: errBad, Base: old}, want: Hold, why: DeletedAndChanged},
		{row: "terminating with its namespace | = base", f: Facts{Live: old, Terminating: true, Ending: NamespaceEnds, Finalizer: true, File: old, Base: old}, want: Hold, why: NamespaceDeleted},
		{row: "terminating with its CRD | = base", f: Facts{Live: old, Terminating: true, Ending: APIEnds, Finalizer: true, File: old, Base: old}, want: Hold, why: APIDeleted},

		{row: "terminating, the file went | back again", f: Facts{Live: old, Terminating: true, Finalizer: true, File: old, Base: old, BaseRemoved: true}, want: Hold, why: FileCameBack},
		{row: "terminating | absent", f: Facts{Live: old, Terminating: true, Finalizer: true, Base: old}, want: Ask, ask: AskGone},
		{row: "terminating | absent, tombstone", f: Facts{Live: old, Terminating: true, Finalizer: true, Base: old, BaseRemoved: true, Gone: yes}, want: Release},
		{row: "terminating | absent, no tombstone", f: Facts{Live: old, Terminating: true, Finalizer: true, Base: old, BaseRemoved: true, Gone: no}, want: Wait},
		{row: "terminating | absent, not recorded", f: Facts{Live: old, Terminating: true, Finalizer: true, Base: old, Gone: no}, want: RecordRemoved},
		{row: "terminating | absent, never committed, no answer yet", f: Facts{Live: edit, Terminating: true, Finalizer: true, Gone: no}, want: Wait},
		{row: "terminating, released by a person | present", f: Facts{Live: old, Terminating: true, File: old, Base: old}, want: Nothing},
		{row: "terminating with its namespace, the file went", f: Facts{Live: old, Terminating: true, Ending: NamespaceEnds, Finalizer: true, Base: old, BaseRemoved: true, Gone: yes}, want: Release},

		{row: "absent | present", f: Facts{File: other}, want: Create},
		{row: "absent | absent", f: Facts{}, want: Nothing},

		{row: "name too long for a path", f: Facts{Live: edit, Unfit: errors.New("name of 220 characters: the longest is 200")}, want: Hold, why: NameUnfit},
		{row: "name too long for a path, terminating", f: Facts{Live: edit, Unfit: errors.New("name of 220 characters"), Terminating: true, Finalizer: true, Gone: yes}, want: Release},

		{row: "main was replaced, yet equal", f: Facts{Live: old, File: old, Base: old, Finalizer: true, BaseCurrent: true, Replaced: "The repository was restored."}, want: Nothing},
		{row: "main was replaced", f: Facts{Live: edit, File: old, Base: old, Replaced: "The repository was restored."}, want: Hold, why: HistoryReplaced},
	} {
		t.Run(tc.row, func(t *testing.T) {
			tc.f.Key = key
			d := For(tc.f)
			if d.Action != tc.want || d.Reason != tc.why || d.Question != tc.ask {
				t.Errorf("got %s %s%s, want %s %s%s", d.Action, d.Reason, d.Question, tc.want, tc.why, tc.ask)
			}
		})
	}
}

// The promises hold for each combination of facts, however unlikely.
func TestForKeepsThePromises(t *testing.T) {
	n := 0
	for f := range everything() {
		n++
		d := For(f)
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

var promises = []struct {
	name   string
	broken func(f Facts, d Decision) bool
}{
	{"an object is deleted only when its file was removed since both agreed, and nobody edited it", func(f Facts, d Decision) bool {
		return d.Action == Delete && (f.Base == nil || !claim.Equal(f.Live, f.Base) || f.File != nil || f.Problem != nil || f.Continues != Yes || f.Terminating || f.Touched)
	}},
	{"a file is removed only for a user's delete of the object that it says", func(f Facts, d Decision) bool {
		known := claim.Equal(f.Live, f.File) || f.OwnWork == Yes || f.Base != nil && claim.Equal(f.File, f.Base)
		return d.Action == RemoveFile && (!f.Terminating || f.Ending != "" || f.BaseRemoved || !known)
	}},
	{"an object is not overwritten when it has an edit that is not in Git", func(f Facts, d Decision) bool {
		return d.Action == Write && (f.Base == nil || !claim.Equal(f.Live, f.Base) || f.Touched && f.OwnWork != No)
	}},
	{"a file is not overwritten when it has an edit that is not in the cluster", func(f Facts, d Decision) bool {
		untouched := f.Base != nil && claim.Equal(f.File, f.Base)
		return d.Action == Commit && f.File != nil && !untouched
	}},
	{"a file that cannot be read is left alone", func(f Facts, d Decision) bool {
		return f.Problem != nil && d.Action != Hold && d.Action != Nothing
	}},
	{"what the API server refused is not tried again", func(f Facts, d Decision) bool {
		return f.Refusal != "" && (d.Action == Write || d.Action == Create)
	}},
	{"the finalizer stays until the control plane says that nothing is left", func(f Facts, d Decision) bool {
		return d.Action == Release && (f.Gone != Yes || !f.Terminating || f.File != nil || f.Problem != nil)
	}},
	{"nothing is written in either direction while main's history is in doubt", func(f Facts, d Decision) bool {
		return f.Replaced != "" && d.Action != Hold && d.Action != Nothing && d.Action != Wait
	}},
	{"the absence of an object removes nothing", func(f Facts, d Decision) bool {
		return f.Live == nil && d.Action != Nothing && d.Action != Create && d.Action != Hold
	}},
	{"an object that terminates gets no new content", func(f Facts, d Decision) bool {
		return f.Terminating && (d.Action == Write || d.Action == Create || d.Action == Commit || d.Action == Record)
	}},
	{"a hold says why and what to do", func(f Facts, d Decision) bool {
		return (d.Action == Hold) != (d.Reason != "" && len(d.Message) > 20)
	}},
	{"an answered question is not asked again", func(f Facts, d Decision) bool {
		answered := map[Question]Answer{AskOwnWork: f.OwnWork, AskContinues: f.Continues, AskGone: f.Gone}
		return d.Action == Ask && answered[d.Question] != Unasked
	}},
}

func everything() func(yield func(Facts) bool) {
	bools := []bool{false, true}
	answers := []Answer{Unasked, No, Yes}
	return func(yield func(Facts) bool) {
		for _, live := range []*claim.Claim{nil, old, edit} {
			for _, file := range []*claim.Claim{nil, old, edit, other} {
				for _, base := range []*claim.Claim{nil, old} {
					for bits := range 1 << 7 {
						for _, ending := range []Ending{"", NamespaceEnds, APIEnds} {
							for _, answer := range answers {
								bit := func(i int) bool { return bools[bits>>i&1] }
								f := Facts{
									Key: key, Live: live, File: file, Base: base, Ending: ending,
									Touched: bit(6), Finalizer: bit(0), Terminating: bit(1) && live != nil,
									BaseRemoved: bit(3) && base != nil, BaseCurrent: bit(4) && base != nil,
									OwnWork: answer, Continues: answer, Gone: answer,
								}
								if bit(5) {
									f.Refusal = "spec.plan: Unsupported value"
								}
								if bit(2) && file == nil {
									f.Problem = errBad
								}
								if !yield(f) {
									return
								}
								f.Replaced = "The repository was restored from a backup."
								if !yield(f) {
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

func describe(f Facts) string {
	plan := func(c *claim.Claim) any {
		if c == nil {
			return "none"
		}
		return c.Spec["plan"]
	}
	return fmt.Sprintf("live %q, file %q, base %q, %+v", plan(f.Live), plan(f.File), plan(f.Base), f)
}

func TestMessagesNameTheFile(t *testing.T) {
	for _, why := range []Reason{BothExist, BothChanged, ChangedAndRemoved, FileMissing, FileRefused, DeletedAndChanged, FileCameBack, NamespaceDeleted} {
		d := Facts{Key: key, Ending: NamespaceEnds}.hold(why)
		if !strings.Contains(d.Message, key.Path()) {
			t.Errorf("%s: %q does not name the file", why, d.Message)
		}
	}
}
