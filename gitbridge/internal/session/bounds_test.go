package session_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/session"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/limits"
	"gitbind.dev/gitbridge/store/memstore"
)

// limited is a branch that says of one commit that it is more than is read.
type limited struct {
	store.Branch
	// looking is held by those who look at the branch.
	looking sync.RWMutex
	at      atomic.Pointer[store.LimitError]
	logs    atomic.Pointer[store.LimitError]
	// asked is how often logs was the answer.
	asked atomic.Int64
}

// unseen does something while nobody looks: a commit would be seen before it is said that
// it is too much.
func (b *limited) unseen(do func()) {
	b.looking.Lock()
	defer b.looking.Unlock()
	do()
}

func (b *limited) FetchTip(ctx context.Context, tip store.Hash) (*store.Snapshot, error) {
	b.looking.RLock()
	defer b.looking.RUnlock()
	snap, err := b.Branch.FetchTip(ctx, tip)
	if limit := b.at.Load(); limit != nil && err == nil && snap.Head() == limit.Head {
		return nil, fmt.Errorf("fetch: %w", limit)
	}
	return snap, err
}

func (b *limited) Log(ctx context.Context, since, to store.Hash) ([]store.Commit, bool, error) {
	b.looking.RLock()
	defer b.looking.RUnlock()
	if limit := b.logs.Load(); limit != nil && to == limit.Head && since != to {
		b.asked.Add(1)
		return nil, false, fmt.Errorf("log: %w", limit)
	}
	return b.Branch.Log(ctx, since, to)
}

// refused is the answer to main as a whole, "" for none.
func (w *world) refusedMain() string {
	w.Helper()
	data, err := w.statusTree().Read(contract.MainAnswerPath)
	if err != nil {
		return ""
	}
	s, err := contract.DecodeStatus(data)
	if err != nil {
		w.Fatal(err)
	}
	return string(s.Result) + ": " + s.Message
}

func TestH1_AMainThatIsTooLargeIsHeldUntilItIsMended(t *testing.T) {
	w := newWorld(t)
	good := w.commit("Add", map[string]string{path("a"): "1"})
	main := &limited{Branch: w.remote.Branch("main")}
	r := w.startOn(session.Options{}, main)
	r.follows()
	r.answer(path("a"), contract.Applied)
	w.queued()

	mend := map[string]func(){
		"by a commit":       func() { w.commit("Mend", map[string]string{path("b"): "1"}) },
		"by being set back": func() { w.remote.ForceHead("main", good) },
	}
	for _, how := range []string{"by being set back", "by a commit"} {
		var bad store.Hash
		main.unseen(func() {
			bad = w.commit("Too much", map[string]string{path("c"): how})
			main.at.Store(&store.LimitError{Branch: "main", Head: bad, Reason: "tree too large: more than 250000 files and folders"})
		})
		r.wantHeld("MainTooLarge")
		if words := r.Condition().Message; !strings.Contains(words, "more than 250000 files") || !strings.Contains(words, bad.Short()) {
			t.Errorf("the condition says %q", words)
		}
		w.eventually("status says so", func() bool { return strings.Contains(w.refusedMain(), "Held: main is at "+bad.Short()) })
		if v := r.View(); v.Main.Head() != good {
			t.Errorf("main counts at %s, want %s", v.Main.Head(), good)
		}
		if got := w.queued(); len(got) > 0 {
			t.Errorf("%q is looked at", got)
		}
		mend[how]()
		r.follows()
		w.eventually("nothing is said any more", func() bool { return w.refusedMain() == "" && r.Condition().Status == "True" })
		w.queued()
	}
}

// A long history is no reason to stay held for good: a person says that it is right.
func TestH2_AHistoryThatIsTooLongIsHeldUntilItIsApproved(t *testing.T) {
	w := newWorld(t)
	w.commit("Add", map[string]string{path("a"): "1"})
	main := &limited{Branch: w.remote.Branch("main")}
	r := w.startOn(session.Options{}, main)
	r.follows()
	var head store.Hash
	main.unseen(func() {
		head = w.commit("Talk", map[string]string{path("b"): "1"})
		main.logs.Store(&store.LimitError{Branch: "main", Head: head, Reason: "the history before it: pack too large: more than 67108864 bytes of commits with their messages"})
	})
	r.wantHeld("MainTooLarge")
	if words := r.Condition().Message; !strings.Contains(words, "bytes of commits") || !strings.Contains(words, "approve --main "+string(head)) {
		t.Errorf("the condition says %q", words)
	}
	if err := r.Approve(t.Context(), head); err != nil {
		t.Fatal(err)
	}
	r.follows()
}

// names has the konnector name a claim that main has no file of.
func (w *world) names(claim string) store.Hash {
	w.Helper()
	key, _ := contract.ParsePath(path(claim))
	return w.commitAsKonnector("Name", map[string]string{"README.md": claim},
		store.Trailer{Key: contract.TrailerObject, Value: contract.ObjectTrailer{Key: key, UID: "u", Generation: 1}.String()})
}

// A file is not needed for a claim to be looked at, and remembered: a commit that names it will do.
func TestH2_ACommitThatNamesOneClaimMoreThanMainMayHaveWaitsForTheAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.startAndFollow()
	r.SetUnanswered(limits.Paths)
	before := r.View().Main.Head()
	w.names("a")
	if c := r.wantTrouble("MainTooLarge"); !strings.Contains(c.Message, "more than 250000 are not answered") || !strings.Contains(c.Message, "tried again by itself") {
		t.Errorf("condition %+v", c)
	}
	if view := r.View(); view.Held || view.Main.Head() != before {
		t.Errorf("held %t at %s", view.Held, view.Main.Head())
	}
	r.SetUnanswered(limits.Paths - 1)
	r.follows()
	if got := w.queued(); len(got) != 1 {
		t.Errorf("%q are looked at", got)
	}
}

// While main is held nothing is answered.
func TestH2_AMainThatIsHeldDoesNotWaitForTheAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := w.remote.Head("main")
	head := w.commit("Add", map[string]string{path("b"): "1"})
	r := w.startAndFollow()
	r.SetUnanswered(limits.Paths)
	w.remote.ForceHead("main", before)
	r.wantHeld("MainRewritten")
	// Main goes on from where it was in one step.
	r.main.looking.Lock()
	w.remote.ForceHead("main", head)
	w.pull()
	head = w.names("a")
	r.main.looking.Unlock()
	r.wantHeld("MainTooLarge")
	if words := r.Condition().Message; !strings.Contains(words, "approve --main "+string(head)) {
		t.Errorf("the condition says %q", words)
	}
	if err := r.Approve(t.Context(), head); err != nil {
		t.Fatal(err)
	}
	r.follows()
	if got := r.UID(path("a")); got != "u" {
		t.Errorf("UID %q", got)
	}
}

func TestH1_FilesThatAreNoClaimsAreCountedAndNotAllAnswered(t *testing.T) {
	w := newWorld(t)
	files := map[string]string{path("a"): "1"}
	stray := func(i int) string { return fmt.Sprintf("bindings/odd/%04d", i) }
	for i := range 1000 {
		files[stray(i)] = "x"
	}
	w.commit("Add", files)
	r := w.startAndFollow()
	queue := w.queued()
	if len(queue) != 101 || queue[0] != path("a")+" !" || queue[100] != stray(99)+" !" {
		t.Errorf("%d paths are looked at, the first %s, the last %s; want the claim and 100 others", len(queue), queue[0], queue[len(queue)-1])
	}
	words := "1000 files below bindings/ are no claims, requests or inputs: 100 of them are answered one by one"
	if c := r.Condition(); c.Status != "True" || !strings.Contains(c.Message, words) {
		t.Errorf("condition %+v", c)
	}
	w.eventually("status says so", func() bool { return strings.Contains(w.refusedMain(), words) })

	// What is answered is looked at again, what is not stays so.
	r.answer(stray(7), contract.Invalid)
	w.commit("Change", map[string]string{stray(7): "y", stray(500): "y", stray(2000): "x", path("a"): "2"})
	r.follows()
	if got := fmt.Sprint(w.queued()); got != fmt.Sprint([]string{path("a") + " !", stray(7) + " !"}) {
		t.Errorf("after a change %s are looked at", got)
	}
	gone := map[string]string{}
	for i := range 950 {
		gone[stray(i)] = ""
	}
	w.commit("Remove most", gone)
	r.follows()
	if got := w.queued(); !strings.Contains(fmt.Sprint(got), stray(2000)) || !strings.Contains(fmt.Sprint(got), stray(950)) || !strings.Contains(fmt.Sprint(got), stray(7)) {
		t.Errorf("when they are few enough %q are looked at", got)
	}
	w.eventually("nothing is said any more", func() bool { return w.refusedMain() == "" && !strings.Contains(r.Condition().Message, "no claims") })
}

func TestH1_ASuspendedClusterIsNotFetched(t *testing.T) {
	w := newWorld(t)
	w.commit("Add", map[string]string{path("a"): "1"})
	r := w.startWith(session.Options{Suspended: &session.Stop{Reason: "Suspended"}})
	wake := func() {
		for range 5 {
			store.Tell(r.wakeMain, "")
			store.Tell(r.wakeStatus, "")
			time.Sleep(2 * time.Millisecond)
		}
	}
	wake()
	if c := r.Condition(); c.Reason != "Suspended" || r.main.looks.Load() != 0 || !r.Works() {
		t.Errorf("from the start: %+v, %d looks at main", c, r.main.looks.Load())
	}
	r.Stops.Suspend(nil)
	r.follows()
	if r.Condition().Status != "True" {
		t.Errorf("afterwards: %+v", r.Condition())
	}
	r.Stops.Suspend(&session.Stop{Reason: "Suspended"})
	// One may be under way.
	var before int64
	w.eventually("nobody looks any more", func() bool {
		before = r.main.looks.Load()
		wake()
		return r.main.looks.Load() == before
	})
	head := w.commit("Add", map[string]string{path("b"): "1"})
	wake()
	if looks := r.main.looks.Load(); looks > before || r.View().Main.Head() == head {
		t.Errorf("%d looks at main while suspended", looks-before)
	}
	r.Stops.Suspend(nil)
	r.follows()
}

// Memory that other repositories take just now is no reason to hold a main that can be
// read: it is asked again.
func TestH2_AHistoryIsReadAgainWhenThereIsMemory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.commit("Add", map[string]string{path("a"): "1"})
	main := &limited{Branch: w.remote.Branch("main")}
	r := w.startOn(session.Options{}, main)
	r.follows()
	main.unseen(func() {
		head := w.commit("Talk", map[string]string{path("b"): "1"})
		main.logs.Store(&store.LimitError{Branch: "main", Head: head, Passing: true, Reason: "busy"})
	})
	before := main.asked.Load()
	w.eventually("it is asked again", func() bool {
		store.Tell(r.wakeMain, "")
		return main.asked.Load() > before+1
	})
	if r.View().Held {
		t.Error("it is held")
	}
	main.logs.Store(nil)
	r.follows()
}

// wantTrouble waits until the condition gives a reason other than that of a hold.
func (r *run) wantTrouble(reason string) session.Condition {
	r.w.Helper()
	r.w.eventually(reason, func() bool {
		store.Tell(r.wakeMain, "")
		return r.Condition().Reason == reason
	})
	return r.Condition()
}

// How an answered claim went may lie further back than is read. That claim is held then,
// and everything else goes on.
func TestH2_ARemovalWithoutHistoryIsHeldAndCanBeApproved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.startAndFollow()
	ordered(w, r, 9)
	r.stop()
	w.commit("Talk", map[string]string{"words": "1"})
	w.remove("a")
	head := w.commit("Order", map[string]string{path("x"): "1"})
	last, _ := w.lastSaved()
	last.Accepted = head
	main := &limited{Branch: w.remote.Branch("main")}
	main.logs.Store(&store.LimitError{Branch: "main", Head: head, Reason: "the history before it: pack too large"})
	r = w.startOn(session.Options{Checkpoint: last}, main)
	r.follows()
	got := r.wantRemoval("a", "", contract.NotRemoved)
	if !strings.Contains(got.Message, "more than is read") || !strings.Contains(got.Message, "approve --removals "+string(head)) {
		t.Errorf("message %q", got.Message)
	}
	// Also what is asked about one by one.
	if got := r.wantRemoval("y", w.remote.History("main")[2].Hash, contract.NotRemoved); !strings.Contains(got.Message, "more than is read") {
		t.Errorf("message %q", got.Message)
	}
	if _, err := r.ApproveRemovals(t.Context(), head); err != nil {
		t.Fatal(err)
	}
	r.wantRemoval("a", "", "")
}

// A removal that is held further back than is read is approved by its own commit, and
// is in the way of no other.
func TestH2_ARemovalThatWasHeldLongAgoIsApprovedByItsCommit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	main := &limited{Branch: w.remote.Branch("main")}
	r := w.startOn(session.Options{}, main)
	r.follows()
	names := ordered(w, r, 20)
	first := w.remove(names[:4]...)
	r.follows()
	second := w.remove(names[4:8]...)
	r.follows()
	for _, head := range []store.Hash{second, first} {
		main.logs.Store(&store.LimitError{Branch: "main", Head: second, Reason: "the history before it: pack too large"})
		if _, err := r.ApproveRemovals(t.Context(), head); err != nil {
			t.Fatal(err)
		}
		r.wantRemoval("e", "", "")
		if head == second {
			r.wantRemoval("a", "", contract.ManyRemovals)
		}
	}
	r.wantRemoval("a", "", "")
}

// A branch status that is more than is read is no fault of main, and main can be approved
// all the same when that is over.
func TestH1_AStatusThatIsTooLargeIsNotToldAsMain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.startAndFollow()
	w.commit("Add", map[string]string{path("a"): "1"})
	r.follows()
	r.answer(path("a"), contract.Applied)
	r.stop()
	old := w.remote.History("main")[1].Hash
	w.remote.ForceHead("main", old)
	limit := &store.LimitError{Branch: "status", Head: w.remote.Head("status"), Reason: "the history before it: pack too large"}
	w.remote.SetFault(func(c memstore.Call) error {
		if c.Branch == "status" && c.Op == memstore.Push {
			return limit
		}
		return nil
	})
	last, _ := w.lastSaved()
	r = w.startWith(session.Options{Checkpoint: last, Approved: old})
	if c := r.wantTrouble("StatusTooLarge"); !strings.Contains(c.Message, "status is at") || r.View().Held {
		t.Errorf("condition %+v, held %t", c, r.View().Held)
	}
	w.remote.SetFault(nil)
	r.follows()
}

// An approval that could not be acted on is acted on when it is passed on again.
func TestAnApprovalOfMainIsTriedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.startAndFollow()
	w.commit("Add", map[string]string{path("a"): "1"})
	r.follows()
	r.answer(path("a"), contract.Applied)
	old := w.remote.History("main")[1].Hash
	w.remote.ForceHead("main", old)
	r.wantHeld("MainRewritten")
	down := errors.New("no answer")
	w.remote.SetFault(func(c memstore.Call) error {
		if c.Branch == "status" {
			return down
		}
		return nil
	})
	if err := r.Approve(t.Context(), old); !errors.Is(err, down) {
		t.Fatal(err)
	}
	w.remote.SetFault(nil)
	if err := r.Approve(t.Context(), old); err != nil || r.View().Held {
		t.Errorf("%v, held %t", err, r.View().Held)
	}
}

// What is wrong with main as a whole is said when status can be written again, and taken
// back likewise; and nothing else waits for that.
func TestH1_WhatIsWrongWithMainIsSaidAfterAllElse(t *testing.T) {
	t.Parallel()
	strays := func(content string) map[string]string {
		files := map[string]string{}
		for i := range 101 {
			files[fmt.Sprintf("bindings/odd/%04d", i)] = content
		}
		return files
	}
	isSaid := func(w *world, want bool) {
		w.Helper()
		w.eventually(fmt.Sprint("status says so: ", want), func() bool { return strings.Contains(w.refusedMain(), "101 files below") == want })
	}
	t.Run("when nothing was done", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		r := w.startAndFollow()
		for _, content := range []string{"x", ""} {
			r.Stops.Set(&session.Stop{Reason: "ControlPlaneLost", Message: "lost"})
			before := w.refusedMain()
			w.commit("Change", strays(content))
			r.follows()
			if w.refusedMain() != before {
				t.Error("something was answered while nothing is done")
			}
			r.Stops.Set(nil)
			isSaid(w, content != "")
		}
	})
	t.Run("when main was too large and it was suspended", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		main := &limited{Branch: w.remote.Branch("main")}
		r := w.startOn(session.Options{}, main)
		r.follows()
		r.Stops.Set(&session.Stop{Reason: "ControlPlaneLost", Message: "lost"})
		var bad store.Hash
		main.unseen(func() {
			bad = w.commit("Too much", map[string]string{path("c"): "1"})
			main.at.Store(&store.LimitError{Branch: "main", Head: bad, Reason: "tree too large"})
		})
		w.eventually("it is held", func() bool {
			store.Tell(r.wakeMain, "")
			return r.View().Held
		})
		r.Stops.Set(nil)
		w.eventually("status says so", func() bool { return strings.Contains(w.refusedMain(), "Held: main is at "+bad.Short()) })
	})
	t.Run("when status was set back", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		r := w.startAndFollow()
		begin := w.remote.Head("status")
		w.commit("Change", strays("x"))
		r.follows()
		isSaid(w, true)
		w.remote.ForceHead("status", begin)
		w.eventually("it is seen", func() bool {
			store.Tell(r.wakeStatus, "")
			return r.StatusSetBack() > 0
		})
		isSaid(w, true)
	})
	t.Run("when the host did not take it", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		var began atomic.Int64
		r := w.startWith(session.Options{Began: func() { began.Add(1) }})
		r.follows()
		w.commit("Add", map[string]string{path("a"): "1"})
		r.follows()
		w.remote.ForceHead("main", w.remote.History("main")[1].Hash)
		r.wantHeld("MainRewritten")
		other := w.commit("Another", strays("x"))
		w.eventually("it is seen", func() bool {
			store.Tell(r.wakeMain, "")
			return strings.Contains(r.Condition().Message, string(other))
		})
		w.remote.SetFault(func(c memstore.Call) error {
			if c.Op == memstore.Push && !c.After {
				if _, ok := c.Pushed.Entry(contract.MainAnswerPath); ok {
					return errors.New("no answer")
				}
			}
			return nil
		})
		before := began.Load()
		if err := r.Approve(t.Context(), other); err != nil || began.Load() != before+1 {
			t.Errorf("%v, began %d times", err, began.Load()-before)
		}
		w.remote.SetFault(nil)
		isSaid(w, true)
	})
}

// A file on main may have any name, and its refusal may repeat what is in it.
func TestL15_AnAnswerWithLongTextsIsNoLargerThanAFileMayBe(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("\U0010ffff", store.MaxFile)
	answer := &contract.Status{
		Result: contract.Invalid, Answers: contract.Answers{Commit: "c"}, Message: long, Problem: &contract.Problem{File: long, Line: 3, Reason: long},
	}
	got := session.Bounded(answer)
	if data, err := contract.EncodeStatus(got); err != nil || len(data) > store.MaxFile {
		t.Errorf("it has %d bytes, %v", len(data), err)
	}
	if got.Message == "" || got.Problem.File == "" || got.Problem.Reason == "" || got.Problem.Line != 3 || answer.Message != long || answer.Problem.File != long {
		t.Errorf("%.300s of %.300s", fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", answer))
	}
	for what, lengths := range map[string][2]int{
		"message": {utf8.RuneCountInString(got.Message), 2000}, "reason": {utf8.RuneCountInString(got.Problem.Reason), 2000}, "file": {utf8.RuneCountInString(got.Problem.File), 4096},
	} {
		if lengths[0] != lengths[1] {
			t.Errorf("%s has %d characters, and may have %d", what, lengths[0], lengths[1])
		}
	}
	if diff := cmp.Diff(got, session.Bounded(got)); diff != "" {
		t.Errorf("it is another one the second time: %.300s", diff)
	}
	short := &contract.Status{Message: "x", Problem: &contract.Problem{File: strings.Repeat("long/", 800), Reason: "y"}}
	if diff := cmp.Diff(short, session.Bounded(short)); diff != "" {
		t.Error(diff)
	}
	if none := session.Bounded(nil); none != nil {
		t.Errorf("no answer became %+v", none)
	}
}
