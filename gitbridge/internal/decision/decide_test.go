package decision_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/guard"
	. "gitbind.dev/gitbridge/internal/decision"
)

const (
	object = "gb-k3x9d2abqw-team-a/orders"
	head   = "head"
	seen   = "seen"
	now    = "2026-11-21T12:00:00Z"
)

var key = contract.Key{Binding: "postgresqlinstances.anynines.com", Namespace: "team-a", Name: "orders"}

// facts are of a granted claim; each case says what else there is.
func facts(change func(*Facts)) Facts {
	f := Facts{Cluster: "k3x9d2abqw", Path: key.Path(), Key: key, IsClaim: true, Head: head, Now: now, Access: Granted}
	change(&f)
	return f
}

func file(f *Facts) { f.File = &File{Blob: "b1", Applied: "a1"} }
func badFile(f *Facts) {
	f.File = &File{Blob: "b1", Problem: &contract.Problem{File: f.Path, Line: 3, Reason: "bad"}}
}
func live(f *Facts) {
	f.Live = &Live{Name: object, Applied: "a1", Status: map[string]any{"ready": true}}
}
func olderLive(f *Facts) { live(f); f.Live.Applied = "a0" }
func goingLive(f *Facts) { live(f); f.Live.Terminating = true }
func foreignLive(f *Facts) {
	f.Live = &Live{Name: object, Foreign: true, Status: map[string]any{"theirs": true}}
}
func adopted(f *Facts)     { f.Live.Adopted = true }
func unpermitted(f *Facts) { f.Unpermitted = true }
func drifted(f *Facts)     { f.Live.Drifted = true }
func refused(f *Facts) {
	f.File.Refusal = &Refusal{Result: contract.Failed, Message: "the template"}
}
func contested(f *Facts) { f.File.Contest = "somebody keeps changing it" }
func certain(f *Facts)   { f.Certain = true }
func removed(f *Facts)   { f.Removal = &guard.Verdict{Commit: head} }
func deleted(f *Facts)   { f.Removal = &guard.Verdict{Commit: head, ByKonnector: true} }
func left(f *Facts) {
	v := guard.NotRemoved(head)
	v.Message = WordsOfLeft(v, key.Binding)
	f.Removal = &v
}
func many(f *Facts) {
	f.Removal = worded(guard.Verdict{Commit: head, Reason: contract.ManyRemovals, Together: 5})
}
func moved(f *Facts)      { f.Removal = worded(guard.Moved(head, "another.yaml")) }
func unproven(f *Facts)   { f.Removal = worded(guard.NotRemoved(head)) }
func recreate(f *Facts)   { f.Recreate = true }
func held(f *Facts)       { f.Held = true }
func uid(f *Facts)        { f.UID = "u2" }
func notBound(f *Facts)   { f.Access = NotBound }
func notGranted(f *Facts) { f.Access = NotGranted }
func notServed(f *Facts)  { f.Access = NotServed }
func unusable(f *Facts)   { f.Access, f.Why = NotServed, key.Binding+" is not namespaced" }
func notWatched(f *Facts) { f.Access = NotWatched }
func noClaim(f *Facts)    { f.IsClaim, f.Path, f.Key = false, "bindings/x", contract.Key{} }

func worded(v guard.Verdict) *guard.Verdict {
	v.Message = WordsOfRemoval(v)
	return &v
}

func present(result contract.Result, blob string, change ...func(*contract.Status)) func(*Facts) {
	return func(f *Facts) {
		f.Present = &contract.Status{
			Metadata: contract.StatusMeta{Name: "orders", Namespace: "team-a"},
			Answers:  contract.Answers{Blob: blob, Commit: seen}, Result: result, UID: "u1",
		}
		for _, c := range change {
			c(f.Present)
		}
	}
}

func asForeign(s *contract.Status) { s.Reason = contract.Foreign }

func asReverted(s *contract.Status) { s.Reason = contract.Reverted }

func withObject(s *contract.Status) { s.Object = object }

func applied(blob string) func(*Facts) { return present(contract.Applied, blob, withObject) }

func deleting(f *Facts) { present(contract.Deleting, "", withObject)(f) }

func unread(f *Facts) { f.Present = Unread(object) }

// want is an answer in short: result, answers, object and a part of the message.
type want struct {
	effect       Effect
	result       contract.Result
	blob, commit string
	uid, object  string
	message      string
	reason       contract.Reason
	since        string
	status       bool
	again        bool
	none         bool
}

func TestDecide(t *testing.T) {
	tests := []struct {
		name  string
		facts []func(*Facts)
		want  want
	}{
		// A file is there.
		{"a new file is applied", list(file), want{effect: Apply}},
		{"a changed file is applied", list(file, olderLive, applied("b0")), want{effect: Apply}},
		{"what is applied is answered", list(file, live), want{result: contract.Applied, blob: "b1", commit: head, object: object, status: true}},
		{"the commit that had it first stays", list(file, live, applied("b1")), want{result: contract.Applied, blob: "b1", commit: seen, uid: "u1", object: object, status: true}},
		{"a newer uid is taken", list(file, live, applied("b1"), uid), want{result: contract.Applied, blob: "b1", commit: seen, uid: "u2", object: object, status: true}},
		{"a bad new file changes nothing", list(badFile), want{result: contract.Invalid, blob: "b1", commit: head, message: "bad"}},
		{"a bad file leaves its object as it is", list(badFile, olderLive, applied("b0")), want{result: contract.Invalid, blob: "b1", commit: head, uid: "u1", object: object, status: true, message: "bad"}},
		{"a mended file is applied", list(file, olderLive, present(contract.Invalid, "b0", withObject)), want{effect: Apply}},
		{"an API that is not bound", list(file, notBound), want{result: contract.Invalid, blob: "b1", commit: head, message: "gitbind bind`, or remove the file"}},
		{"an API that is not granted yet", list(file, notGranted), want{result: contract.Held, blob: "b1", commit: head, message: "not granted"}},
		{"an API that is unbound keeps what it knows", list(file, notBound, applied("b1")), want{result: contract.Invalid, blob: "b1", commit: seen, uid: "u1", object: object, message: "is not bound"}},
		{"an API that is not served", list(file, notServed), want{result: contract.Failed, blob: "b1", commit: head, message: "does not serve"}},
		{"an API that cannot be used", list(file, unusable), want{result: contract.Failed, blob: "b1", commit: head, message: "postgresqlinstances.anynines.com is not namespaced; the control plane's operator"}},
		{"a missing object is asked for", list(file, applied("b1")), want{effect: Ask}},
		{"an object that was applied and is missing is lost", list(file, applied("b1"), certain), want{result: contract.Lost, blob: "b1", commit: seen, uid: "u1", object: object, message: "missing on the control plane"}},
		{"a lost one stays lost when its file changes", list(file, present(contract.Lost, "b0", withObject), certain), want{result: contract.Lost, blob: "b1", commit: head, uid: "u1", object: object, message: "missing"}},
		{"a lost one that is back is applied", list(file, olderLive, present(contract.Lost, "b1", withObject)), want{effect: Apply}},
		{"a lost one that a person wants empty is made again", list(file, present(contract.Lost, "b1", withObject), certain, recreate), want{effect: Apply}},
		{"not before the API server was asked", list(file, present(contract.Lost, "b1", withObject), recreate), want{effect: Ask}},
		{"one that was bad since is lost too", list(file, present(contract.Invalid, "b0", withObject), certain), want{result: contract.Lost, blob: "b1", commit: head, uid: "u1", object: object, message: "missing"}},
		{"one that never was applied is applied", list(file, present(contract.Denied, "b1")), want{effect: Apply}},
		{"an object that goes by itself is shown", list(file, goingLive, applied("b1")), want{result: contract.Deleting, blob: "b1", commit: seen, uid: "u1", object: object, status: true, message: "though its file is on main"}},
		{"and is lost when it is gone", list(file, present(contract.Deleting, "b1", withObject), certain), want{result: contract.Lost, blob: "b1", commit: seen, uid: "u1", object: object, message: "missing"}},

		{"what somebody changed is corrected", list(file, live, drifted, applied("b1")), want{effect: Correct}},
		{"a changed file is applied over it", list(file, olderLive, drifted, applied("b0")), want{effect: Apply}},
		{"what the template refuses is not applied", list(file, refused), want{result: contract.Failed, blob: "b1", commit: head, message: "template"}},
		{"and leaves what is there", list(file, refused, olderLive, applied("b0")), want{result: contract.Failed, blob: "b1", commit: head, uid: "u1", object: object, status: true, message: "template"}},
		{"a lost one is lost all the same", list(file, refused, applied("b1"), certain), want{result: contract.Lost, blob: "b1", commit: seen, uid: "u1", object: object, message: "missing"}},
		{"what is contested is said", list(file, live, contested, applied("b1")), want{result: contract.Applied, blob: "b1", commit: seen, uid: "u1", reason: contract.Contested, object: object, status: true, message: "keeps changing"}},

		// Somebody else's object is in its place.
		{"a foreign object stays as it is", list(file, foreignLive), want{result: contract.Held, reason: contract.Foreign, blob: "b1", commit: head, message: "gitbind.dev/adopt=k3x9d2abqw"}},
		{"also one in the place of what was applied", list(file, foreignLive, applied("b1")), want{result: contract.Held, reason: contract.Foreign, blob: "b1", commit: seen, uid: "u1", object: object, message: "not this claim's"}},
		{"one that watching does not show is asked for", list(file, present(contract.Held, "b1", asForeign)), want{effect: Ask}},
		{"it went", list(file, present(contract.Held, "b1", asForeign), certain), want{effect: Apply}},
		{"an operator hands it over", list(file, foreignLive, adopted, present(contract.Held, "b1", asForeign)), want{effect: Apply}},
		{"a removed claim leaves it", list(foreignLive, certain, present(contract.Held, "b1", asForeign), removed), want{result: contract.Gone, since: now, commit: head, uid: "u1"}},
		{"even one that was handed over", list(foreignLive, adopted, certain, present(contract.Held, "b1", asForeign), removed), want{result: contract.Gone, since: now, commit: head, uid: "u1"}},
		{"and what was applied before it went", list(foreignLive, certain, applied("b1"), removed), want{result: contract.Gone, since: now, commit: head, uid: "u1"}},
		{"held: nothing of it is shown", list(file, foreignLive, held, present(contract.Held, "b1", asForeign)), want{result: contract.Held, reason: contract.Foreign, blob: "b1", commit: seen, uid: "u1"}},

		// The answer cannot be read.
		{"what is there is answered again", list(file, live, unread), want{result: contract.Applied, blob: "b1", commit: head, object: object, status: true}},
		{"an edit is applied", list(file, olderLive, unread), want{effect: Apply}},
		{"what is not there may have been there", list(file, unread, certain), want{result: contract.Lost, blob: "b1", commit: head, object: object, message: "missing"}},
		{"until a person wants it empty", list(file, unread, certain, recreate), want{effect: Apply}},
		{"it is removed like others", list(live, unread, removed), want{effect: Delete}},
		{"but only if it was", list(live, unread), want{result: contract.Held, reason: contract.NotRemoved, commit: head, object: object, status: true, message: "nothing was deleted"}},
		{"also where nothing is there", list(unread, certain, unproven), want{result: contract.Held, reason: contract.NotRemoved, commit: head, object: object, message: "nothing was deleted"}},
		{"while main is not followed it is left", list(file, live, unread, held), want{effect: Leave}},
		{"and while it cannot be watched", list(unread, notWatched, removed), want{effect: Leave}},

		// The right to bind the API is lost.
		{"nothing new is ordered", list(file, unpermitted), want{result: contract.Held, reason: contract.NotPermitted, blob: "b1", commit: head, message: "may not bind"}},
		{"what was ordered changes as before", list(file, unpermitted, olderLive, applied("b0")), want{effect: Apply}},
		{"even if nothing was answered yet", list(file, unpermitted, olderLive), want{effect: Apply}},
		{"and what a person wants empty is made again", list(file, unpermitted, present(contract.Lost, "b1", withObject), certain, recreate), want{effect: Apply}},
		{"and goes as before", list(unpermitted, live, applied("b1"), removed), want{effect: Delete}},

		// A file is back.
		{"a delete that has begun goes on though the file is back", list(file, goingLive, deleting), want{result: contract.Deleting, commit: seen, uid: "u1", object: object, status: true, message: "cannot be undone"}},
		{"then it is lost", list(file, deleting, certain), want{result: contract.Lost, reason: contract.Reverted, blob: "b1", commit: head, uid: "u1", object: object, message: "--recreate-empty"}},
		{"not before the API server was asked", list(file, deleting), want{effect: Ask}},
		{"and stays so", list(file, certain, present(contract.Lost, "b1", withObject, asReverted)), want{result: contract.Lost, reason: contract.Reverted, blob: "b1", commit: seen, uid: "u1", object: object, message: "came back"}},
		{"until a person wants it empty", list(file, certain, recreate, present(contract.Lost, "b1", withObject, asReverted)), want{effect: Apply}},
		{"it has a tombstone when the file goes again", list(certain, removed, present(contract.Lost, "b1", withObject, asReverted)), want{result: contract.Gone, since: now, commit: head, uid: "u1"}},
		{"where a person wanted it empty before, the tombstone comes first", list(file, deleting, certain, recreate), want{result: contract.Gone, since: now, commit: seen, uid: "u1", again: true}},
		{"what comes back after the tombstone is applied", list(file, present(contract.Gone, "")), want{effect: Apply}},
		{"with a life of its own", list(file, live, present(contract.Gone, "")), want{result: contract.Applied, blob: "b1", commit: head, object: object, status: true}},
		{"a delete that was refused so far is withdrawn", list(file, olderLive, deleting), want{effect: Apply}},

		// A file is not there.
		{"nothing at all", list(certain), want{none: true}},
		{"what the bridge may have made a moment ago is asked for", nil, want{effect: Ask}},
		{"also where commits name it", list(uid), want{effect: Ask}},
		{"and after the tombstone of another life", list(present(contract.Gone, ""), uid), want{effect: Ask}},
		{"and is removed like others", list(uid, live, certain, removed), want{effect: Delete}},
		{"created and removed before the bridge looked", list(uid, certain), want{result: contract.Gone, since: now, commit: head, uid: "u2"}},
		{"a removed file deletes its object", list(live, applied("b1"), removed), want{effect: Delete}},
		{"a missing file does not", list(live, applied("b1")), want{result: contract.Held, reason: contract.NotRemoved, commit: head, uid: "u1", object: object, status: true, message: "nothing was deleted"}},
		{"an object without an answer is not deleted either", list(live), want{result: contract.Held, reason: contract.NotRemoved, commit: head, object: object, status: true, message: "nothing was deleted"}},
		{"a removal among many is held", list(live, applied("b1"), many), want{result: contract.Held, reason: contract.ManyRemovals, commit: head, uid: "u1", object: object, status: true, message: "together with 4 others: more than"}},
		{"also where its delete had begun for another one", list(live, deleting, many), want{result: contract.Held, reason: contract.ManyRemovals, commit: head, uid: "u1", object: object, status: true, message: "approve --removals head"}},
		{"a moved file is held", list(live, applied("b1"), moved), want{result: contract.Held, reason: contract.Moved, commit: head, uid: "u1", object: object, status: true, message: "another.yaml may be the same claim"}},
		{"what nobody removed names the commit since when it is missing", list(live, present(contract.Held, "", withObject), unproven), want{result: contract.Held, reason: contract.NotRemoved, commit: head, uid: "u1", object: object, status: true, message: "approve --removals head"}},
		{"what is held and went by itself is gone", list(applied("b1"), many, certain), want{result: contract.Gone, since: now, commit: head, uid: "u1"}},
		{"not if nobody removed it", list(applied("b1"), unproven, certain), want{result: contract.Held, reason: contract.NotRemoved, commit: head, uid: "u1", object: object, message: "nothing was deleted"}},
		{"what is held stays held", list(live, present(contract.Held, "", withObject)), want{result: contract.Held, reason: contract.NotRemoved, commit: seen, uid: "u1", object: object, status: true, message: "nothing was deleted"}},
		{"a delete that was refused is tried again", list(live, deleting), want{effect: Delete}},
		{"a delete under way", list(goingLive, deleting), want{result: contract.Deleting, commit: seen, uid: "u1", object: object, status: true}},
		{"its end is asked for", list(deleting), want{effect: Ask}},
		{"its end", list(deleting, certain), want{result: contract.Gone, since: now, commit: seen, uid: "u1"}},
		{"a tombstone stays", list(present(contract.Gone, "")), want{result: contract.Gone, commit: seen, uid: "u1"}},
		{"a tombstone of another life", list(present(contract.Gone, ""), uid, certain), want{result: contract.Gone, since: now, commit: head, uid: "u2"}},
		{"a bad file that is removed", list(present(contract.Invalid, "b0"), certain), want{result: contract.Gone, since: now, commit: head, uid: "u1"}},
		{"it might have been applied a moment ago", list(present(contract.Failed, "b0")), want{effect: Ask}},
		{"a lost one is removed", list(present(contract.Lost, "b0", withObject), certain, removed), want{result: contract.Gone, since: now, commit: head, uid: "u1"}},
		{"a lost one just lacks its file", list(present(contract.Lost, "b0", withObject), certain), want{result: contract.Held, reason: contract.NotRemoved, commit: head, uid: "u1", object: object, message: "nothing was deleted"}},
		{"a removal while the API is unbound is held", list(applied("b1"), removed, notBound), want{effect: Hold}},
		{"not where the rights are not granted for a while", list(applied("b1"), removed, notGranted), want{result: contract.Held, blob: "b1", commit: seen, uid: "u1", object: object, message: "no right"}},
		{"and says so", list(applied("b1"), left, notBound), want{result: contract.Held, reason: contract.NotRemoved, commit: head, uid: "u1", object: object, message: "no right"}},
		{"also when it is bound again", list(live, present(contract.Held, "", withObject), left), want{result: contract.Held, reason: contract.NotRemoved, commit: head, uid: "u1", object: object, status: true, message: "approve --removals head"}},
		{"one that is held says why", list(applied("b1"), many, notBound), want{result: contract.Held, reason: contract.ManyRemovals, commit: head, uid: "u1", object: object, message: "together with 4 others"}},
		{"a claim that was deleted in the app cluster waits for its API", list(applied("b1"), deleted, notBound), want{result: contract.Held, commit: head, uid: "u1", object: object, message: "no right"}},
		{"a removal while the API is not served is for the control plane's operator", list(applied("b1"), removed, notServed), want{result: contract.Held, blob: "b1", commit: seen, uid: "u1", object: object, message: "does not serve postgresqlinstances.anynines.com: nothing was deleted"}},
		{"what was never applied is not held", list(present(contract.Invalid, "b0"), removed, notGranted), want{result: contract.Gone, since: now, commit: head, uid: "u1"}},
		{"a removal while the API cannot be used says why", list(applied("b1"), removed, unusable), want{result: contract.Held, blob: "b1", commit: seen, uid: "u1", object: object, message: "but postgresqlinstances.anynines.com is not namespaced: nothing was deleted"}},
		{"what waits for a person does so where the API is not served for a while", list(applied("b1"), moved, notServed), want{result: contract.Held, reason: contract.Moved, commit: head, uid: "u1", object: object, message: "another.yaml may be the same claim"}},
		{"a delete under way goes on where the API is not served for a while", list(deleting, notServed), want{result: contract.Deleting, commit: seen, uid: "u1", object: object}},
		{"or the rights on it are not granted", list(deleting, notGranted), want{result: contract.Deleting, commit: seen, uid: "u1", object: object}},
		{"or its objects cannot be seen", list(deleting, notWatched), want{result: contract.Deleting, commit: seen, uid: "u1", object: object}},
		{"the bridge lets go of what was unbound", list(deleting, notBound), want{result: contract.Gone, since: now, commit: seen, uid: "u1"}},
		{"what cannot be seen is not said to be gone", list(present(contract.Failed, "b0"), removed, notWatched), want{result: contract.Failed, blob: "b0", commit: seen, uid: "u1"}},
		{"nor to be held", list(applied("b1"), removed, notWatched), want{result: contract.Applied, blob: "b1", commit: seen, uid: "u1", object: object}},
		{"or nothing, where it came and went since", list(uid, notWatched), want{result: contract.Failed, commit: head, uid: "u2", message: "may not watch it"}},
		{"also after the tombstone of another life", list(present(contract.Gone, ""), uid, notWatched), want{result: contract.Failed, commit: seen, uid: "u2", message: "may not watch it"}},
		{"an API that was never there", list(present(contract.Invalid, "b1"), notBound), want{result: contract.Gone, since: now, commit: head, uid: "u1"}},

		// Files that are no claims.
		{"a file in the wrong place", list(badFile, noClaim), want{result: contract.Invalid, blob: "b1", commit: head, message: "bad"}},
		{"is forgotten when it goes", list(noClaim, present(contract.Invalid, "b1")), want{none: true}},

		// Main is not followed.
		{"held: a file is not applied", list(file, held), want{none: true}},
		{"held: a removal deletes nothing", list(live, applied("b1"), removed, held), want{result: contract.Applied, blob: "b1", commit: seen, uid: "u1", object: object, status: true}},
		{"held: status goes on", list(file, olderLive, applied("b0"), held), want{result: contract.Applied, blob: "b0", commit: seen, uid: "u1", object: object, status: true}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := facts(func(f *Facts) {
				for _, change := range test.facts {
					change(f)
				}
			})
			if test.want.effect == "" {
				test.want.effect = Nothing
			}
			got := Decide(f)
			message := ""
			short := want{effect: got.Effect, again: got.Again, none: got.Effect == Nothing && got.Answer == nil}
			if a := got.Answer; a != nil {
				short.result, short.blob, short.commit, short.uid = a.Result, a.Answers.Blob, a.Answers.Commit, a.UID
				short.object, short.status, message = a.Object, a.Status != nil, a.Message
				short.reason, short.since = a.Reason, a.Since
				if f.IsClaim != (a.Metadata.Name == "orders") {
					t.Errorf("metadata = %+v", a.Metadata)
				}
				if (a.Result == contract.Invalid) != (a.Problem != nil) {
					t.Errorf("%s with problem %v", a.Result, a.Problem)
				}
			}
			if !strings.Contains(message, test.want.message) || test.want.message == "" && message != "" {
				t.Errorf("message = %q, want one with %q", message, test.want.message)
			}
			test.want.message = ""
			if diff := cmp.Diff(test.want, short, cmp.AllowUnexported(want{})); diff != "" {
				t.Errorf("(-want +got): %s", diff)
			}
		})
	}
}

func TestNobodyIsToldToRemoveTheFileOfAServiceThatIsThere(t *testing.T) {
	f := facts(func(f *Facts) { file(f); notBound(f); applied("b1")(f) })
	if a := Decide(f).Answer; a.Result != contract.Invalid || strings.Contains(a.Message, "remove the file") {
		t.Errorf("%s: %s", a.Result, a.Message)
	}
}

func list(changes ...func(*Facts)) []func(*Facts) { return changes }

func anyFacts(t *rapid.T) Facts {
	pick := func(name string, options ...func(*Facts)) func(*Facts) {
		return rapid.SampledFrom(append(options, func(*Facts) {})).Draw(t, name)
	}
	results := rapid.SampledFrom([]contract.Result{contract.Applied, contract.Invalid, contract.Denied, contract.Held, contract.Failed, contract.Deleting, contract.Gone, contract.Lost}).Draw(t, "result")
	blob := rapid.SampledFrom([]string{"", "b0", "b1"}).Draw(t, "blob")
	return facts(func(f *Facts) {
		for _, change := range []func(*Facts){
			pick("file", file, badFile), pick("live", live, olderLive, goingLive, foreignLive), pick("unpermitted", unpermitted), pick("certain", certain), pick("removal", removed, many, moved, unproven),
			pick("recreate", recreate),
			pick("held", held), pick("uid", uid), pick("access", notBound, notGranted, notServed, notWatched),
			pick("present", present(results, blob), present(results, blob, withObject), unread),
		} {
			change(f)
		}
	})
}

func TestNothingIsDeletedWithoutARemoval(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := anyFacts(t)
		began := f.Present != nil && f.Present.Result == contract.Deleting && f.Present.Answers.Blob == ""
		passed := f.Removal != nil && f.Removal.Reason == ""
		if d := Decide(f); d.Effect == Delete && (f.File != nil || f.Held || f.Live == nil || !passed && (f.Removal != nil || !began)) {
			t.Fatalf("deletes: %+v", f)
		}
	})
}

// A removal that is reverted while the service is being deleted orders nothing by itself,
// whatever the file says by then, and whenever the bridge looks.
func TestL11_AFileThatComesBackWhileItsServiceGoesOrdersNothing(t *testing.T) {
	for _, f := range []func(*Facts){file, badFile} {
		facts := facts(func(all *Facts) { f(all); deleting(all); goingLive(all) })
		facts.Present = Decide(facts).Answer
		facts.Live = nil
		for step := range 4 {
			facts.Certain = step > 0
			d := Decide(facts)
			if d.Effect == Apply || d.Answer != nil && d.Answer.Result != contract.Lost && d.Answer.Result != contract.Invalid {
				t.Fatalf("step %d: %+v %+v", step, d, d.Answer)
			}
			if d.Answer != nil {
				facts.Present = d.Answer
			}
		}
		file(&facts)
		if d := Decide(facts); d.Answer == nil || d.Answer.Result != contract.Lost {
			t.Errorf("%+v %+v", d, d.Answer)
		}
	}
}

func TestWhatWasAppliedIsNotMadeAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := anyFacts(t)
		if d := Decide(f); d.Effect == Apply && f.Live == nil && f.Present != nil && f.Present.Object != "" && f.Present.Result != contract.Gone && !f.Recreate {
			t.Fatalf("makes again: %+v", f)
		}
	})
}

func TestWhatCountsForAnAnswerThatCannotBeReadIsNotWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := anyFacts(t)
		unread(&f)
		if d := Decide(f); d.Effect == Nothing && (d.Answer == nil || d.Answer.Reason == contract.NotRemoved && d.Answer.Result != contract.Held) {
			t.Fatalf("answers %+v: %+v", d.Answer, f)
		}
	})
}

func TestATombstoneIsCertain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := anyFacts(t)
		d := Decide(f)
		if d.Answer == nil || d.Answer.Result != contract.Gone || f.Present != nil && d.Answer.UID == f.Present.UID && f.Present.Result == contract.Gone {
			return
		}
		began := f.Present != nil && f.Present.Result == contract.Deleting && f.Present.Answers.Blob == ""
		mustAsk := f.Access == Granted || f.Access == NotWatched || began && f.Access != NotBound
		if f.Live != nil && !f.Live.Foreign || mustAsk && !f.Certain || f.Held {
			t.Fatalf("says gone: %+v", f)
		}
	})
}

// TestAnswersAreStable: to decide again with the answer in place changes nothing.
func TestAnswersAreStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := anyFacts(t)
		first := Decide(f)
		if first.Effect != Nothing || first.Again {
			return
		}
		f.Present, f.UID = first.Answer, ""
		second := Decide(f)
		if second.Effect == Ask {
			f.Certain = true
			second = Decide(f)
		}
		if second.Effect != Nothing {
			t.Fatalf("%s after the answer %+v to %+v", second.Effect, first.Answer, f)
		}
		if diff := cmp.Diff(first.Answer, second.Answer); diff != "" {
			t.Fatalf("(-first +second): %s", diff)
		}
	})
}

func TestLoss(t *testing.T) {
	for _, test := range []struct {
		name  string
		facts []func(*Facts)
		want  bool
	}{
		{"applied and there", list(file, live, applied("b1")), false},
		{"applied and missing", list(file, applied("b1")), true},
		{"applied and going", list(file, goingLive, applied("b1")), true},
		{"applied, and its API is not served", list(file, notServed, applied("b1")), true},
		{"applied, and its API was taken away by a person", list(file, notBound, applied("b1")), false},
		{"bad since", list(badFile, present(contract.Invalid, "b0", withObject)), true},
		{"never applied", list(file, present(contract.Denied, "b1")), false},
		{"its delete was asked for", list(file, goingLive, deleting), false},
		{"its file is removed", list(removed, applied("b1")), false},
		{"a person wants it empty", list(file, applied("b1"), recreate), false},
		{"main is not followed", list(file, applied("b1"), held), false},
	} {
		f := facts(func(f *Facts) {
			for _, change := range test.facts {
				change(f)
			}
		})
		if got := f.Loss(); got != test.want {
			t.Errorf("%s: loss = %v", test.name, got)
		}
	}
}

func TestWasLost(t *testing.T) {
	for name, test := range map[string]struct {
		present *contract.Status
		want    bool
	}{
		"no answer yet": {nil, false},
		"applied":       {&contract.Status{Result: contract.Applied}, false},
		"lost":          {&contract.Status{Result: contract.Lost}, true},
	} {
		if got := WasLost(test.present); got != test.want {
			t.Errorf("%s: lost = %v", name, got)
		}
	}
}

func TestAnAnswerShowsWhatTheFileCameTo(t *testing.T) {
	f := facts(func(f *Facts) { file(f); live(f); f.File.Effective = map[string]any{"size": int64(2)} })
	if diff := cmp.Diff(f.File.Effective, Decide(f).Answer.Effective); diff != "" {
		t.Errorf("(-want +got): %s", diff)
	}
}

func TestTheLastStatusStaysUntilTheObjectIsLost(t *testing.T) {
	ready := map[string]any{"ready": true}
	applied := present(contract.Applied, "b1", withObject, func(s *contract.Status) { s.Status = ready })
	for _, test := range []struct {
		name  string
		facts []func(*Facts)
		want  map[string]any
	}{
		{"its API is not bound", list(file, applied, notBound), ready},
		{"it is missing", list(file, applied, certain), nil},
	} {
		f := facts(func(f *Facts) {
			for _, change := range test.facts {
				change(f)
			}
		})
		if diff := cmp.Diff(test.want, Decide(f).Answer.Status); diff != "" {
			t.Errorf("%s: (-want +got): %s", test.name, diff)
		}
	}
}

func TestARefusalIsToldInTheWordsOfItsProblemOnlyIfThereAreNoOthers(t *testing.T) {
	f := facts(file)
	problem := &contract.Problem{File: f.Path, Line: 3, Reason: "bad"}
	for message, want := range map[string]string{"": "bad", "refused": "refused"} {
		if got := f.Refused(contract.Denied, message, problem); got.Message != want || got.Problem != problem {
			t.Errorf("%q: got %+v", message, got)
		}
	}
}

func TestManySaysHowManyWentTogether(t *testing.T) {
	for together, want := range map[int]string{1: "removed after others:", 3: "removed together with 2 others:"} {
		if got := WordsOfRemoval(guard.Verdict{Commit: head, Reason: contract.ManyRemovals, Together: together}); !strings.Contains(got, want) {
			t.Errorf("%d: got %q, want %q", together, got, want)
		}
	}
}
