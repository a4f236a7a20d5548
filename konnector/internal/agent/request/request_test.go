package request_test

import (
	"errors"
	"fmt"
	"testing"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/konnector/internal/agent/request"
)

func asks(template string, policy contract.DeletionPolicy) *contract.Request {
	return &contract.Request{Binding: "a.example.org", Template: template, DeletionPolicy: policy}
}

var errUnreadable = errors.New("unreadable")

func TestRows(t *testing.T) {
	refuse, other, orphan, remove := asks("", contract.Refuse), asks("pg", contract.Refuse), asks("", contract.Orphan), asks("", contract.Delete)
	for _, c := range []struct {
		name string
		f    request.Facts
		want request.Action
	}{
		{"a pull request asks", request.Facts{File: refuse}, request.Create},
		{"a main that was replaced asks", request.Facts{File: refuse, Replaced: true}, request.Nothing},
		{"a file that is no request asks", request.Facts{Problem: errUnreadable}, request.Nothing},
		{"new, without our finalizer", request.Facts{Live: refuse}, request.Adopt},
		{"new", request.Facts{Live: refuse, Finalizer: true}, request.Commit},
		{"new, the file says so", request.Facts{Live: refuse, Finalizer: true, File: refuse}, request.Record},
		{"new, the file says otherwise", request.Facts{Live: refuse, Finalizer: true, File: other}, request.Write},
		{"in step", request.Facts{Live: refuse, Finalizer: true, File: refuse, Base: refuse, Continues: true}, request.Nothing},
		{"in step, and a push did not come to Git", request.Facts{Live: refuse, Finalizer: true, File: refuse, Base: refuse, Pushing: true, Continues: true}, request.Record},
		{"changed here while another change was pushed", request.Facts{Live: orphan, Finalizer: true, File: remove, Base: remove, Pushing: true, Continues: true}, request.Commit},
		{"changed here", request.Facts{Live: other, Finalizer: true, File: refuse, Base: refuse, Continues: true}, request.Commit},
		{"changed in Git", request.Facts{Live: refuse, Finalizer: true, File: other, Base: refuse, Continues: true}, request.Write},
		{"changed on both sides", request.Facts{Live: orphan, Finalizer: true, File: other, Base: refuse, Continues: true}, request.Write},
		{"the file cannot be read", request.Facts{Live: other, Finalizer: true, Problem: errUnreadable, Base: refuse, Continues: true}, request.Nothing},
		{"the file was removed", request.Facts{Live: refuse, Finalizer: true, Base: refuse, Continues: true}, request.RecordRemoved},
		{"the file was removed, and that is noted", request.Facts{Live: refuse, Finalizer: true, Base: refuse, BaseRemoved: true, Continues: true}, request.Delete},
		{"the file is not in another history", request.Facts{Live: refuse, Finalizer: true, Base: refuse}, request.Commit},
		{"main was replaced", request.Facts{Live: refuse, Finalizer: true, Base: refuse, Continues: true, Replaced: true}, request.Hold},
		{"the file was removed, and came back", request.Facts{Live: refuse, Finalizer: true, Base: refuse, BaseRemoved: true, Continues: true, File: refuse}, request.Record},
		{"no Connection", request.Facts{Live: refuse, Disconnected: true}, request.Nothing},

		{"deleted, not ours", request.Facts{Live: refuse, Terminating: true}, request.Nothing},
		{"deleted before it was asked for", request.Facts{Live: refuse, Finalizer: true, Terminating: true}, request.TakeBack},
		{"deleted with claims", request.Facts{Live: refuse, Finalizer: true, Terminating: true, File: refuse, Base: refuse, Continues: true, Claims: 2, Objects: 2, Kept: 2}, request.KeepOn},
		{"deleted with files only", request.Facts{Live: refuse, Finalizer: true, Terminating: true, File: refuse, Base: refuse, Continues: true, Claims: 2}, request.KeepOn},
		{"deleted without claims", request.Facts{Live: refuse, Finalizer: true, Terminating: true, File: refuse, Base: refuse, Continues: true}, request.RemoveRequest},
		{"deleted, and the file is gone", request.Facts{Live: refuse, Finalizer: true, Terminating: true, Base: refuse, BaseRemoved: true, Continues: true}, request.TakeBack},
		{"deleted, and then by Git", request.Facts{Live: refuse, Finalizer: true, Terminating: true, Base: refuse, Continues: true, Claims: 2}, request.RecordRemoved},
		{"deleted, and the file came back", request.Facts{Live: refuse, Finalizer: true, Terminating: true, File: refuse, Base: refuse, BaseRemoved: true, Continues: true, Claims: 2}, request.Release},
		{"deleted, and the file came back under another Connection", request.Facts{Live: remove, Finalizer: true, Terminating: true, File: remove, BaseRemoved: true, Claims: 2, Objects: 2}, request.Release},
		{"deleted, and the policy changed here", request.Facts{Live: orphan, Finalizer: true, Terminating: true, File: refuse, Base: refuse, Continues: true, Claims: 2}, request.Commit},
		{"deleted, and the policy changed in Git", request.Facts{Live: remove, Finalizer: true, Terminating: true, File: orphan, Base: remove, Continues: true, Claims: 2}, request.Write},
		{"deleted, and the policy and the offer changed in Git", request.Facts{Live: refuse, Finalizer: true, Terminating: true, File: asks("pg", contract.Orphan), Base: refuse, Continues: true, Claims: 2}, request.Write},
		{"deleted with its claims, and the offer changed in Git", request.Facts{Live: remove, Finalizer: true, Terminating: true, File: asks("pg", contract.Delete), Base: remove, Continues: true, Claims: 2}, request.Write},
		{"L2: orphaned by a person, and the file says Delete since", request.Facts{Live: orphan, Finalizer: true, Terminating: true, File: remove, Base: refuse, Continues: true, Claims: 2, ByPerson: true}, request.Commit},
		{"L2: orphaned, and the file says Delete since", request.Facts{Live: orphan, Finalizer: true, Terminating: true, File: remove, Base: orphan, Continues: true, Claims: 2, ByPerson: true}, request.Commit},
		{"L2: orphaned, and the file says Delete in another history", request.Facts{Live: orphan, Finalizer: true, Terminating: true, File: remove, Claims: 2, ByPerson: true}, request.Commit},
		{"L2: deleted, and the file says Delete since", request.Facts{Live: refuse, Finalizer: true, Terminating: true, File: remove, Base: refuse, Continues: true, Claims: 2, ByPerson: true}, request.Commit},
		{"deleted with its claims", request.Facts{Live: remove, Finalizer: true, Terminating: true, File: remove, Base: remove, Continues: true, Claims: 3, Objects: 2}, request.DeleteClaims},
		{"deleted with its files", request.Facts{Live: remove, Finalizer: true, Terminating: true, File: remove, Base: remove, Continues: true, Claims: 3, ByPerson: true}, request.RemoveFiles},
		{"L2: deleted by no person, with its files", request.Facts{Live: remove, Finalizer: true, Terminating: true, File: remove, Base: remove, Continues: true, Claims: 3}, request.KeepOn},
		{"L2: deleted by Git, with its files", request.Facts{Live: remove, Finalizer: true, Terminating: true, Base: remove, BaseRemoved: true, Continues: true, Claims: 3}, request.KeepOn},
		{"orphaned, the control plane does not know", request.Facts{Live: orphan, Finalizer: true, Terminating: true, File: orphan, Base: orphan, Continues: true, Claims: 3, Objects: 2, Kept: 2}, request.AwaitAnswer},
		{"orphaned", request.Facts{Live: orphan, Finalizer: true, Terminating: true, File: orphan, Base: orphan, Continues: true, Claims: 3, Objects: 2, Kept: 2, Answered: true}, request.RemoveRequest},
		{"orphaned, and main says so", request.Facts{Live: orphan, Finalizer: true, Terminating: true, Base: orphan, BaseRemoved: true, Continues: true, Claims: 3, Objects: 2, Kept: 2}, request.LetGo},
		{"orphaned, and edited while the file went", request.Facts{Live: orphan, Finalizer: true, Terminating: true, Base: orphan, BaseRemoved: true, Continues: true, Claims: 3, Objects: 2, Kept: 2, Unsaved: 1}, request.AwaitClaims},
		{"orphaned, and main lacks an edit", request.Facts{Live: orphan, Finalizer: true, Terminating: true, File: orphan, Base: orphan, Continues: true, Claims: 3, Objects: 2, Kept: 2, Unsaved: 1, Answered: true}, request.AwaitClaims},
		{"orphaned before it was granted", request.Facts{Live: orphan, Finalizer: true, Terminating: true, File: orphan, Base: orphan, Continues: true}, request.RemoveRequest},
		{"orphaned, and the claims cannot be seen", request.Facts{Live: orphan, Finalizer: true, Terminating: true, File: orphan, Base: orphan, Continues: true, Claims: 3, Unseen: true, Answered: true}, request.Hold},
		{"deleted, and the claims cannot be seen", request.Facts{Live: refuse, Finalizer: true, Terminating: true, File: refuse, Base: refuse, Continues: true, Unseen: true}, request.Hold},
		{"deleted with its claims, and they cannot be seen", request.Facts{Live: remove, Finalizer: true, Terminating: true, File: remove, Base: remove, Continues: true, Claims: 3, Unseen: true}, request.Hold},
		{"deleted after its Connection, and the claims cannot be seen", request.Facts{Live: refuse, Finalizer: true, Terminating: true, Disconnected: true, Unseen: true}, request.Hold},
		{"orphaned, and let go", request.Facts{Live: orphan, Finalizer: true, Terminating: true, File: orphan, Base: orphan, Continues: true, Claims: 3, Objects: 2, Answered: true}, request.RemoveRequest},
		{"orphaned, and the file is gone", request.Facts{Live: orphan, Finalizer: true, Terminating: true, Base: orphan, BaseRemoved: true, Continues: true, Claims: 3}, request.TakeBack},
		{"orphaned after Git removed a file that refuses", request.Facts{Live: orphan, Finalizer: true, Terminating: true, Base: refuse, BaseRemoved: true, Continues: true, Claims: 3, Held: true}, request.Commit},
		{"orphaned, and the file cannot be read", request.Facts{Live: orphan, Finalizer: true, Terminating: true, Base: refuse, Problem: errUnreadable, Continues: true}, request.Commit},
		{"deleted, and the file cannot be read", request.Facts{Live: refuse, Finalizer: true, Terminating: true, Base: refuse, Problem: errUnreadable, Continues: true}, request.RemoveRequest},
		{"deleted, and main was replaced", request.Facts{Live: refuse, Finalizer: true, Terminating: true, File: refuse, Base: refuse, Replaced: true}, request.Hold},
		{"deleted after its Connection", request.Facts{Live: refuse, Finalizer: true, Terminating: true, Base: refuse, Disconnected: true}, request.TakeBack},
		{"deleted after its Connection, with claims", request.Facts{Live: remove, Finalizer: true, Terminating: true, Disconnected: true, Claims: 1, Objects: 1, Kept: 1}, request.Hold},
		{"orphaned after its Connection", request.Facts{Live: orphan, Finalizer: true, Terminating: true, Disconnected: true, Claims: 1, Objects: 1, Kept: 1}, request.LetGo},
		{"orphaned after its Connection, and let go", request.Facts{Live: orphan, Finalizer: true, Terminating: true, Disconnected: true, Claims: 1, Objects: 1}, request.TakeBack},
	} {
		if got := request.For(c.f); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

// TestPromises goes through all combinations of facts.
func TestPromises(t *testing.T) {
	n := 0
	for f := range all {
		n++
		a := request.For(f)
		promise := func(kept bool, words string) {
			if !kept {
				t.Errorf("%s: %s for %s", words, a, show(f))
			}
		}
		policy := contract.DeletionPolicy("")
		if f.Live != nil {
			policy = f.Live.DeletionPolicy
		}
		switch a {
		case request.DeleteClaims, request.RemoveFiles, request.LetGo, request.RemoveRequest, request.TakeBack:
			promise(!f.Unseen, "nothing is taken back on what is not known")
		}
		switch a {
		case request.RecordRemoved, request.Delete:
			promise(f.File == nil && f.Problem == nil && f.Base != nil && (f.Continues || f.BaseRemoved) && !f.Replaced && !f.Disconnected, "nothing is deleted because it is missing")
		case request.DeleteClaims, request.RemoveFiles:
			promise(f.Terminating && policy == contract.Delete && !f.Replaced && !f.Disconnected, "claims are deleted only by who says so")
			promise(a != request.RemoveFiles || f.ByPerson, "files go without the guard only by a person")
		case request.LetGo:
			promise(f.Terminating && policy == contract.Orphan, "claims are let go of only by who says so")
			promise(f.File == nil && f.Problem == nil || f.Disconnected, "main says so before")
			promise(f.Unsaved == 0 || f.Disconnected, "nothing is lost")
		case request.RemoveRequest:
			promise(f.Terminating && (f.Claims == 0 || policy == contract.Orphan && f.Unsaved == 0 && f.Answered), "the request stays while there are claims, or the control plane does not know")
		case request.TakeBack:
			promise(f.Terminating && f.Finalizer && (f.Claims == 0 || policy == contract.Orphan && f.Kept == 0 || f.Disconnected && f.Objects == 0), "the API stays while there are claims")
		case request.Write:
			promise(!f.Terminating || f.File.DeletionPolicy != contract.Delete || policy == contract.Delete, "L2: no file has claims deleted with a binding that goes")
		case request.Commit, request.Create:
			promise(!f.Replaced && !f.Disconnected, "nothing is written from or to a main that was replaced")
		}
	}
	t.Logf("%d combinations", n)
}

// TestEachActionLeadsOn carries out what is decided until nothing is left to do.
func TestEachActionLeadsOn(t *testing.T) {
	for start := range all {
		f := start
		for step := 0; ; step++ {
			if step > 12 {
				t.Fatalf("it goes round: %s", show(start))
			}
			a := request.For(f)
			if a == request.Nothing || a == request.Hold || a == request.KeepOn || a == request.AwaitAnswer || a == request.AwaitClaims || a == request.TakeBack || a == request.Release {
				break
			}
			before := f
			f = after(f, a)
			if show(before) == show(f) {
				t.Fatalf("%s changes nothing: %s", a, show(f))
			}
		}
	}
}

// after is what an action does to the facts.
func after(f request.Facts, a request.Action) request.Facts {
	switch a {
	case request.Adopt:
		f.Finalizer = true
	case request.Create:
		f.Live, f.Finalizer = f.File, true
	case request.Commit:
		f.File, f.Base, f.BaseRemoved, f.Continues, f.Problem, f.Answered, f.Held = f.Live, f.Live, false, true, nil, false, false
		f.Pushing = false
	case request.Write:
		f.Live, f.Base, f.BaseRemoved, f.Continues, f.Pushing = f.File, f.File, false, true, false
	case request.Record:
		f.Base, f.BaseRemoved, f.Continues, f.Pushing = f.File, false, true, false
	case request.RecordRemoved:
		f.BaseRemoved, f.Pushing = true, false
	case request.Delete:
		f.Terminating = true
	case request.DeleteClaims:
		f.Claims, f.Objects, f.Kept, f.Unsaved = f.Claims-f.Objects, 0, 0, 0
	case request.RemoveFiles:
		f.Claims = f.Objects
	case request.LetGo:
		f.Kept, f.Unsaved = 0, 0
	case request.RemoveRequest:
		f.File, f.Problem, f.BaseRemoved = nil, nil, f.Base != nil
	}
	return f
}

// all are all combinations of facts that can be.
func all(yield func(request.Facts) bool) {
	versions := []*contract.Request{nil, asks("", contract.Refuse), asks("", contract.Orphan), asks("", contract.Delete), asks("pg", contract.Refuse)}
	for bits := range 1 << 11 {
		bit := func(n int) bool { return bits&(1<<n) != 0 }
		for _, live := range versions {
			for _, file := range versions {
				for _, base := range versions {
					for objects := range 2 {
						for kept := range objects + 1 {
							f := request.Facts{
								Live: live, File: file, Base: base,
								Finalizer: bit(0), Terminating: bit(1), BaseRemoved: bit(2), Continues: bit(3),
								Disconnected: bit(4), Replaced: bit(5), Answered: bit(6), Held: bit(7), ByPerson: bit(10),
								Claims: objects, Objects: objects, Kept: kept,
							}
							if bit(8) {
								f.Claims++
							}
							if bit(9) {
								// Objects are seen or not, and only what is kept can be unsaved.
								f.Unseen, f.Unsaved = objects == 0, kept
							}
							if f.BaseRemoved && base == nil && !f.Terminating {
								continue
							}
							if !yield(f) {
								return
							}
							if file == nil {
								f.Problem = errUnreadable
							} else if f.Pushing = true; base != file {
								continue
							}
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

func show(f request.Facts) string {
	text := func(r *contract.Request) string {
		if r == nil {
			return "none"
		}
		return r.Template + "/" + string(r.DeletionPolicy)
	}
	return fmt.Sprintf("live=%s file=%s base=%s problem=%v finalizer=%v terminating=%v removed=%v pushing=%v continues=%v disconnected=%v replaced=%v claims=%d objects=%d kept=%d unsaved=%d unseen=%v answered=%v held=%v person=%v",
		text(f.Live), text(f.File), text(f.Base), f.Problem != nil, f.Finalizer, f.Terminating, f.BaseRemoved, f.Pushing, f.Continues, f.Disconnected, f.Replaced, f.Claims, f.Objects, f.Kept, f.Unsaved, f.Unseen, f.Answered, f.Held, f.ByPerson)
}
