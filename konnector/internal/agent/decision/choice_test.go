package decision

import (
	"strings"
	"testing"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/guard"
	"gitbind.dev/konnector/internal/choice"
)

// A person's decision does what it says, and is one on just this state of
// things: of the reason, the object, the file and the base.
func TestChoices(t *testing.T) {
	held := func(change func(*Facts)) Facts {
		f := Facts{Key: key, UID: "u1", Live: edit, File: other, FileBlob: "b1", Base: old, Finalizer: true, BaseCurrent: true, OwnWork: No, Continues: Yes, Flips: No, Removal: &guard.Verdict{}, Merges: No}
		change(&f)
		return f
	}
	noFile := func(f *Facts) { f.File, f.FileBlob = nil, "" }
	ending := func(f *Facts) { f.Terminating = true }
	inStep := func(f *Facts) { f.Live, f.File = old, old }
	for _, tc := range []struct {
		name string
		f    Facts
		why  Reason
		want map[choice.Choice]Action
	}{
		{"changed and removed", held(noFile), ChangedAndRemoved, map[choice.Choice]Action{choice.Keep: Commit, choice.Delete: Delete}},
		{"no removal to be found", held(func(f *Facts) { noFile(f); f.Live, f.Continues = old, No }), FileMissing, map[choice.Choice]Action{choice.Keep: Commit, choice.Delete: Delete}},
		{"one of many files removed", held(func(f *Facts) {
			noFile(f)
			f.Live, f.Removal = old, &guard.Verdict{Reason: contract.ManyRemovals, Message: "five files at once are too many"}
		}), ManyRemovals, map[choice.Choice]Action{choice.Keep: Commit, choice.Delete: Delete}},
		{"one of many objects deleted", held(func(f *Facts) {
			inStep(f)
			ending(f)
			f.Removal = &guard.Verdict{Reason: contract.ManyRemovals, Message: "five objects at once are too many"}
		}), ManyRemovals, map[choice.Choice]Action{choice.Release: Release, choice.Delete: RemoveFile}},
		{"deleted and changed", held(ending), DeletedAndChanged, map[choice.Choice]Action{choice.Release: Release, choice.Delete: RemoveFile}},
		{"the file came back", held(func(f *Facts) { ending(f); inStep(f); f.BaseRemoved = true }), FileCameBack, map[choice.Choice]Action{choice.Release: Release, choice.Delete: RemoveFile}},
		{"the namespace ends", held(func(f *Facts) { ending(f); inStep(f); f.Ending = NamespaceEnds }), NamespaceDeleted, map[choice.Choice]Action{choice.Release: Release, choice.Delete: RemoveFile}},
		{"the namespace is gone", held(func(f *Facts) {
			ending(f)
			inStep(f)
			f.Finalizer, f.Ending, f.NamespaceMissing = true, NamespaceEnds, true
		}), NamespaceDeleted, nil},
		{"its owner ends", held(func(f *Facts) { ending(f); inStep(f); f.Ending = OwnerEnds }), OwnerDeleted, map[choice.Choice]Action{choice.Release: Release, choice.Delete: RemoveFile}},
		{"the API ends", held(func(f *Facts) { ending(f); inStep(f); f.Ending = APIEnds }), APIDeleted, map[choice.Choice]Action{choice.Release: Release, choice.Delete: RemoveFile}},
		{"too many writes", held(func(f *Facts) { f.File, f.ManyWrites = old, "spec.plan" }), ManyWrites, map[choice.Choice]Action{choice.Cluster: Commit, choice.File: GiveWay}},
		{"too many writes beside Git's", held(func(f *Facts) { f.File, f.ManyWrites, f.Writer = old, "spec.plan", v1alpha1.WriterGit }), ManyWrites, map[choice.Choice]Action{choice.File: GiveWay}},
		{"to and fro", held(func(f *Facts) { f.File, f.Flips = old, Yes }), FlipFlop, map[choice.Choice]Action{choice.Cluster: Commit, choice.File: GiveWay}},
		{"main lacks the commit of the base", held(func(f *Facts) { f.Live, f.Continues = old, No }), CommitLost, map[choice.Choice]Action{choice.Cluster: Commit, choice.File: GiveWay}},
		{"the history is too long to tell of the base", held(func(f *Facts) { f.Live, f.Continues, f.HistoryTooLong = old, No, true }), HistoryTooLong, map[choice.Choice]Action{choice.Cluster: Commit, choice.File: GiveWay}},
		{"the history is too long to tell of a removal", held(func(f *Facts) { noFile(f); f.Live, f.Continues, f.HistoryTooLong = old, No, true }), HistoryTooLong, map[choice.Choice]Action{choice.Keep: Commit, choice.Delete: Delete}},
		{"the history is too long to tell of a new object", held(func(f *Facts) { noFile(f); f.Base, f.HistoryTooLong = nil, true }), HistoryTooLong, map[choice.Choice]Action{choice.Keep: Commit, choice.Delete: Delete}},
		{"main lacks the commit of the base, and the object was edited", held(func(f *Facts) { f.Continues = No }), CommitLost, map[choice.Choice]Action{choice.Cluster: Commit, choice.File: GiveWay}},
		{"the cluster writes, the file changed", held(func(f *Facts) { f.Live, f.Writer = old, v1alpha1.WriterCluster }), ClusterWrites, map[choice.Choice]Action{choice.Cluster: Commit, choice.File: Write}},
		{"the cluster writes, both changed", held(func(f *Facts) { f.Writer = v1alpha1.WriterCluster }), ClusterWrites, map[choice.Choice]Action{choice.Cluster: Commit, choice.File: GiveWay}},
		{"the cluster writes, the file went", held(func(f *Facts) { noFile(f); f.Live, f.Writer = old, v1alpha1.WriterCluster }), ClusterWrites, map[choice.Choice]Action{choice.Keep: Commit, choice.Delete: Delete}},
		{"Git writes, the object is deleted", held(func(f *Facts) { ending(f); inStep(f); f.Writer = v1alpha1.WriterGit }), GitWrites, map[choice.Choice]Action{choice.Release: Release, choice.Delete: RemoveFile}},
		{"Git writes, the object is new", held(func(f *Facts) { noFile(f); f.Base, f.Writer = nil, v1alpha1.WriterGit }), GitWrites, nil},
		{"a conflict was lost", held(func(f *Facts) { inStep(f); f.Lost = lost }), BothChanged, map[choice.Choice]Action{choice.Cluster: TakeBack, choice.File: Record}},
		{"Git won because it writes", held(func(f *Facts) { inStep(f); f.Lost = &Lost{Reason: GitWrites, Branch: "conflicts/x"} }), GitWrites, map[choice.Choice]Action{choice.File: Record}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := For(tc.f)
			if d.Reason != tc.why || d.Action != Hold && d.Action != Nothing || len(d.Choices) != len(tc.want) {
				t.Fatalf("got %+v", d)
			}
			for _, taken := range d.Choices {
				f := tc.f
				f.Resolve = string(taken) + "." + d.Token
				if got := For(f); got.Action != tc.want[taken] || got.Chosen != taken {
					t.Errorf("%s: got %+v, want %s", taken, got, tc.want[taken])
				}
				for what, change := range map[string]func(*Facts){
					"another object": func(f *Facts) { f.UID = "u2" },
					"another file": func(f *Facts) {
						f.FileBlob += "2"
					},
					"another edit": func(f *Facts) {
						if f.Live == f.File {
							f.File = edit
						}
						f.Live = edit2
					},
				} {
					f := f
					change(&f)
					if tc.why == ManyWrites && what == "another edit" {
						// Writers go on.
						continue
					}
					if got := For(f); got.Chosen != "" {
						t.Errorf("%s: decided on %s: %+v", taken, what, got)
					}
				}
				f.Resolve = string(taken) + ".0000000000"
				if got := For(f); got.Action != d.Action || !strings.Contains(got.Message, f.Resolve) {
					t.Errorf("a decision on something else: %+v", got)
				}
			}
			f := tc.f
			f.Resolve = "anything." + d.Token
			if got := For(f); got.Chosen != "" {
				t.Errorf("decided: %+v", got)
			}
		})
	}
}

func TestMessagesNameTheFile(t *testing.T) {
	for _, why := range []Reason{ChangedAndRemoved, FileMissing, CommitLost, HistoryTooLong, FileRefused, DeletedAndChanged, FileCameBack, NamespaceDeleted, FlipFlop, ManyWrites, GitWrites, ClusterWrites, Paused} {
		for _, f := range []Facts{{}, {Terminating: true}, {File: old}} {
			f.Key, f.Ending = key, NamespaceEnds
			if d := f.hold(why); !strings.Contains(d.Message, key.Path()) {
				t.Errorf("%s: %q does not name the file", why, d.Message)
			}
		}
	}
	for _, why := range []Reason{BothExist, BothChanged, GitWrites} {
		message := Facts{Key: key, Lost: &Lost{Reason: why, Branch: lost.Branch, Fields: lost.Fields, Users: lost.Users}}.lost().Message
		for _, want := range []string{key.Path(), lost.Branch, "alice"} {
			if !strings.Contains(message, want) {
				t.Errorf("%s: %q does not name %s", why, message, want)
			}
		}
	}
}

func TestMessagesSayWhatHappenedAndNothingElse(t *testing.T) {
	lostTo := func(why Reason, change func(*Facts)) string {
		f := Facts{Key: key, Lost: &Lost{Reason: why, Branch: lost.Branch}}
		if change != nil {
			change(&f)
		}
		return f.lost().Message
	}
	held := func(why Reason, change func(*Facts)) string {
		f := Facts{Key: key, Problem: errBad, Live: old}
		if change != nil {
			change(&f)
		}
		return f.hold(why).Message
	}
	for name, c := range map[string]struct{ message, has, hasNot string }{
		"a bad file beside an object":             {held(FileInvalid, nil), "This object stays as it is", ""},
		"a bad file without an object":            {held(FileInvalid, func(f *Facts) { f.Live = nil }), "Correct the file", "This object"},
		"made where only Git may":                 {held(GitWrites, nil), "was created here", "was deleted"},
		"deleted where only Git may":              {held(GitWrites, func(f *Facts) { f.Terminating = true }), "was deleted", "was created here"},
		"removed where only the cluster may":      {held(ClusterWrites, nil), "was removed from main", "was changed on main"},
		"changed where only the cluster may":      {held(ClusterWrites, func(f *Facts) { f.File = old }), "was changed on main", "was removed from main"},
		"collected, perhaps":                      {held(OwnerDeleted, func(f *Facts) { f.Owners = MaxOwners }), "this cluster has no such kind or name", "more than"},
		"more owners than are looked at":          {held(OwnerDeleted, func(f *Facts) { f.Owners = 2000 }), "2000 owners in its metadata.ownerReferences: of more than 16", "is none of which"},
		"both changed":                            {lostTo(BothChanged, nil), "were both changed:", "(by"},
		"both changed some fields":                {lostTo(BothChanged, func(f *Facts) { f.Lost.Fields = []string{"spec.plan", "spec.service"} }), "were both changed in spec.plan, spec.service:", ""},
		"both changed, by somebody":               {lostTo(BothChanged, func(f *Facts) { f.Lost.Users = []string{"alice", "bob"} }), "(by alice, bob)", ""},
		"both made":                               {lostTo(BothExist, nil), "made independently", "both changed"},
		"what lost can be brought back":           {lostTo(BothChanged, nil), "cluster brings it back", "cannot be brought back"},
		"what lost is refused":                    {lostTo(BothChanged, func(f *Facts) { f.LostRefusal = "spec.plan cannot become smaller." }), "It cannot be brought back: spec.plan cannot become smaller.", "cluster brings"},
		"what lost where only Git may":            {lostTo(GitWrites, nil), "merge the branch into main", "cluster brings"},
		"what lost where only Git may is refused": {lostTo(GitWrites, func(f *Facts) { f.LostRefusal = "No." }), "It cannot be brought back: No.", "merge the branch"},
	} {
		if !strings.Contains(c.message, c.has) || c.hasNot != "" && strings.Contains(c.message, c.hasNot) {
			t.Errorf("%s: %q; want %q, not %q", name, c.message, c.has, c.hasNot)
		}
	}
}

// A decision on one lost version is none on the next.
func TestATokenIsOfOneBranch(t *testing.T) {
	f := Facts{Key: key, Lost: &Lost{Reason: BothChanged, Branch: "conflicts/a"}}
	g := Facts{Key: key, Lost: &Lost{Reason: BothChanged, Branch: "conflicts/b"}}
	if f.Token(BothChanged) == g.Token(BothChanged) {
		t.Error("two branches have one token")
	}
}
