package repository

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gitbind.dev/gitbridge/breaker"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/memstore"
)

// objects are an app cluster's: each claim's, as a cache would have them.
type objects struct {
	mu  sync.Mutex
	all map[contract.Key]Object
	// meanwhile, if not nil, is called once, while they are listed.
	meanwhile func()
}

func (o *objects) Objects(_ context.Context, want func(contract.Key, bool) bool) ([]Object, error) {
	if meanwhile := o.meanwhile; meanwhile != nil {
		o.meanwhile = nil
		meanwhile()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []Object
	for key, object := range o.all {
		if want(key, !object.Deleted.IsZero()) {
			out = append(out, object)
		}
	}
	return out, nil
}

func (o *objects) Read(f contract.File) *contract.Claim { return decodeAny(f) }

// delete begins the delete of an object.
func (o *objects) delete(key contract.Key, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	object := o.all[key]
	object.Deleted = at
	o.all[key] = object
}

func (o *objects) gone(key contract.Key) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.all, key)
}

// held is what the object's status says by now.
func (o *objects) held(key contract.Key) {
	o.mu.Lock()
	defer o.mu.Unlock()
	object := o.all[key]
	object.Held = true
	o.all[key] = object
}

func keyOf(i int) contract.Key {
	return contract.Key{Binding: api, Namespace: "team-a", Name: fmt.Sprint("c", i)}
}

func fileOf(key contract.Key, plan string) string {
	return fmt.Sprintf("apiVersion: anynines.com/v1\nkind: PostgresqlInstance\nmetadata: {name: %s, namespace: %s}\nspec: {plan: %s}\n", key.Name, key.Namespace, plan)
}

// newCounted is a world with n claims, in step.
func newCounted(t *testing.T, n int) (*world, *objects) {
	w := newWorld(t, "", memstore.New())
	o := &objects{all: map[contract.Key]Object{}}
	var head store.Hash
	s, err := w.person.Update(t.Context(), store.Edit{Author: store.Signature{Name: "Ada", Email: "ada@example.org"}, Subject: "all", Apply: func(tree *store.Tree) error {
		for i := range n {
			if err := tree.Write(keyOf(i).Path(), []byte(fileOf(keyOf(i), fmt.Sprint("plan", i)))); err != nil {
				return err
			}
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	head = s.Head()
	for i := range n {
		e, _ := s.Entry(keyOf(i).Path())
		o.all[keyOf(i)] = Object{Key: keyOf(i), Commit: head, Blob: e.Hash, Kind: "PostgresqlInstance"}
	}
	w.run()
	w.sees(head)
	w.track(o)
	return w, o
}

func (w *world) track(o *objects) {
	w.Helper()
	if _, err := w.repo.Removals.Track(w.Context(), api, o); err != nil {
		w.Fatal(err)
	}
}

func (w *world) sees(head store.Hash) {
	w.Helper()
	w.repo.Wake()
	w.until("it is seen", func() bool {
		v, err := w.repo.View(w.Context())
		return err == nil && v.Main.Head() == head
	})
}

// push changes files in one commit, by a person: "" removes.
func (w *world) push(files map[string]string) store.Hash {
	w.Helper()
	s, err := w.person.Update(w.Context(), store.Edit{Author: store.Signature{Name: "Ada", Email: "ada@example.org"}, Subject: "push", Apply: func(t *store.Tree) error {
		for path, data := range files {
			if data == "" {
				if err := t.Remove(path); err != nil {
					return err
				}
			} else if err := t.Write(path, []byte(data)); err != nil {
				return err
			}
		}
		return nil
	}})
	if err != nil {
		w.Fatal(err)
	}
	w.sees(s.Head())
	return s.Head()
}

func (w *world) removeFiles(keys ...contract.Key) store.Hash {
	w.Helper()
	files := map[string]string{}
	for _, k := range keys {
		files[k.Path()] = ""
	}
	return w.push(files)
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// may asks for each claim, and carries out what may be.
func (w *world) may(o *objects, file bool, want bool, keys ...contract.Key) {
	w.Helper()
	for _, k := range keys {
		v, err := w.repo.Removals.Judge(w.Context(), k, file)
		if err != nil {
			w.Fatal(err)
		}
		if v.IsHeld() == want || v.IsHeld() != (v.Message != "") {
			w.Errorf("%s: %+v, want it to pass: %v", k, v, want)
		}
		if v.IsHeld() {
			o.held(k)
			continue
		}
		if err := w.repo.Removals.Begin(w.Context(), k, v); err != nil {
			w.Fatal(err)
		}
		o.gone(k)
		if !file {
			w.own(k)
		}
	}
}

// own removes a file as the konnector does for a deleted object.
func (w *world) own(k contract.Key) {
	w.Helper()
	_, err := w.repo.Update(w.Context(), store.Edit{
		Author: store.Signature{Name: "unknown", Email: "unknown@" + contract.ClusterDomain(cluster)}, Subject: "s",
		Trailers: []store.Trailer{{Key: contract.TrailerObject, Value: contract.ObjectTrailer{Key: k, UID: "u", Generation: 1}.String()}},
		Apply:    func(t *store.Tree) error { return t.Remove(k.Path()) },
	})
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) writes() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.saved)
}

func (w *world) lastSaved() Checkpoint {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.saved[len(w.saved)-1]
}

func keysFrom(from, n int) []contract.Key {
	var out []contract.Key
	for i := range n {
		out = append(out, keyOf(from+i))
	}
	return out
}

func TestOneDeleteJustWorks(t *testing.T) {
	w, o := newCounted(t, 20)
	o.delete(keyOf(0), w.now)
	before := w.writes()
	w.may(o, false, true, keyOf(0))
	if n := w.writes() - before; n != 1 {
		t.Errorf("%d writes", n)
	}
	want := []breaker.Removal{{Path: keyOf(0).Path(), At: w.now}}
	if diff := cmp.Diff(want, w.lastSaved().Removals); diff != "" {
		t.Error(diff)
	}
}

func TestAFewAtOnceNeedOneWrite(t *testing.T) {
	w, o := newCounted(t, 20)
	w.removeFiles(keysFrom(0, 3)...)
	before := w.writes()
	w.may(o, true, true, keysFrom(0, 3)...)
	if n := w.writes() - before; n != 1 {
		t.Errorf("%d writes", n)
	}
	if got := w.lastSaved(); got.Accepted != w.view().Main.Head() || len(got.Removals) != 3 {
		t.Errorf("saved: %+v", got)
	}
	// They count against the next one, and not for ever.
	head := w.removeFiles(keyOf(3))
	w.may(o, true, false, keyOf(3))
	if files, deletes, at, err := w.repo.Removals.Held(t.Context()); files != 1 || deletes != 0 || at != head || err != nil {
		t.Errorf("held: %d %d %s %v", files, deletes, at, err)
	}
	w.pass(10 * time.Minute)
	w.may(o, true, false, keyOf(3)) // held until a person approves
	o.delete(keyOf(9), w.now)
	w.may(o, false, true, keyOf(9)) // one plain delete works
	if got := w.lastSaved().Removals; len(got) != 1 {
		t.Errorf("what is long ago is still kept: %v", got)
	}
}

// What comes while removals are listed has no file on the main by which they are judged, and
// was never removed.
func TestAClaimThatComesMeanwhileIsNoRemoval(t *testing.T) {
	w, o := newCounted(t, 3)
	w.removeFiles(keyOf(0))
	fresh := keyOf(9)
	o.meanwhile = func() {
		head := w.put(w.person, fresh.Path(), fileOf(fresh, "plan9"))
		w.repo.Wake()
		w.until("main has moved on", func() bool {
			moved, err := w.repo.Lineage.Continues(t.Context(), head)
			return err == nil && moved
		})
		o.mu.Lock()
		defer o.mu.Unlock()
		o.all[fresh] = Object{Key: fresh, Commit: head}
	}
	v, err := w.repo.Removals.Judge(t.Context(), keyOf(0), true)
	if err != nil || v.IsHeld() || len(v.Passing) != 1 {
		t.Errorf("%+v, %v", v, err)
	}
}

// A file that came back after somebody looked is no file that is gone.
func TestARemovalThatWasTakenBackIsNotJudged(t *testing.T) {
	w, _ := newCounted(t, 3)
	w.removeFiles(keyOf(0))
	w.push(map[string]string{keyOf(0).Path(): fileOf(keyOf(0), "plan0")})
	if v, err := w.repo.Removals.Judge(t.Context(), keyOf(0), true); !errors.Is(err, ErrOutdated) {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestManyInOnePushAreHeldTogether(t *testing.T) {
	w, o := newCounted(t, 20)
	head := w.removeFiles(keysFrom(0, 5)...)
	w.may(o, true, false, keysFrom(0, 5)...)
	w.may(o, true, false, keysFrom(0, 5)...)
	if files, _, at, err := w.repo.Removals.Held(t.Context()); files != 5 || at != head || err != nil {
		t.Errorf("held: %d %s %v", files, at, err)
	}
	// A plain delete elsewhere is no part of it.
	o.delete(keyOf(10), w.now)
	w.may(o, false, true, keyOf(10))

	if err := w.repo.Removals.Approve(t.Context(), "of nothing here"); err != nil {
		t.Fatal(err)
	}
	w.may(o, true, false, keyOf(0))
	if err := w.repo.Removals.Approve(t.Context(), string(head)); err != nil {
		t.Fatal(err)
	}
	w.may(o, true, true, keysFrom(0, 5)...)
	if got := w.lastSaved().Removals; len(got) != 1 {
		t.Errorf("what was approved counts against what comes: %v", got)
	}
	if files, _, _, err := w.repo.Removals.Held(t.Context()); files != 0 || err != nil {
		t.Errorf("held: %d %v", files, err)
	}
	// The approval was for these, and is not for them when they come back.
	files := map[string]string{}
	for i, k := range keysFrom(0, 5) {
		files[k.Path()] = fileOf(k, fmt.Sprint("plan", i))
	}
	back := w.push(files)
	for _, k := range keysFrom(0, 5) {
		o.all[k] = Object{Key: k, Commit: back}
	}
	w.removeFiles(keysFrom(0, 5)...)
	w.may(o, true, false, keysFrom(0, 5)...)
	w.removeFiles(keysFrom(11, 5)...)
	w.may(o, true, false, keysFrom(11, 5)...)
}

func TestRemovalsThatAreUndoneHoldNothingBack(t *testing.T) {
	w, o := newCounted(t, 20)
	w.removeFiles(keysFrom(0, 5)...)
	w.may(o, true, false, keyOf(4))
	files := map[string]string{}
	for _, k := range keysFrom(0, 4) {
		files[k.Path()] = fileOf(k, "back")
	}
	w.push(files)
	w.until("it is told", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return slices.ContainsFunc(w.changes, func(c Change) bool { return c.Recovered })
	})
	w.removeFiles(keyOf(10))
	w.pass(time.Second)
	w.may(o, true, true, keyOf(10))
	// What was told to be held stays so.
	w.may(o, true, false, keyOf(4))
}

func TestHalfOfABindingIsHeld(t *testing.T) {
	w, o := newCounted(t, 4)
	w.removeFiles(keysFrom(0, 2)...)
	w.may(o, true, false, keysFrom(0, 2)...)

	w, o = newCounted(t, 4)
	o.delete(keyOf(0), w.now)
	w.may(o, false, true, keyOf(0))
	o.delete(keyOf(1), w.now)
	w.may(o, false, false, keyOf(1))
}

func TestManyDeletesAreHeldTogether(t *testing.T) {
	w, o := newCounted(t, 20)
	for _, k := range keysFrom(0, 5) {
		o.delete(k, w.now)
	}
	w.may(o, false, false, keysFrom(0, 5)...)
	if files, deletes, _, err := w.repo.Removals.Held(t.Context()); files != 0 || deletes != 5 || err != nil {
		t.Errorf("held: %d %d %v", files, deletes, err)
	}
	if v, err := w.repo.Removals.Judge(t.Context(), keyOf(0), false); v.Approved || err != nil {
		t.Errorf("no person approved it: %+v %v", v, err)
	}
	w.pass(time.Minute)
	if err := w.repo.Removals.Approve(t.Context(), string(w.view().Main.Head())); err != nil {
		t.Fatal(err)
	}
	if v, err := w.repo.Removals.Judge(t.Context(), keyOf(0), false); v.IsHeld() || err != nil || !v.Approved {
		t.Errorf("approved, and yet: %+v %v", v, err)
	}
	w.may(o, false, true, keysFrom(0, 5)...)
	// What begins later is not covered.
	for _, k := range keysFrom(5, 5) {
		o.delete(k, w.now)
	}
	w.may(o, false, false, keysFrom(5, 5)...)
}

func TestAnotherProcessRemembersWhatPassedAndWhatIsHeld(t *testing.T) {
	w, o := newCounted(t, 20)
	head := w.removeFiles(keysFrom(0, 5)...)
	w.may(o, true, false, keysFrom(0, 5)...)
	for i := range 2 {
		o.delete(keyOf(10+i), w.now)
		w.may(o, false, true, keyOf(10+i))
	}
	again := newWorldWith(t, w.lastSaved(), w.remote)
	again.now = w.now.Add(time.Hour)
	again.run()
	again.until("contact", func() bool { return again.repo.Health().Contacted })
	again.track(o)
	// Each one alone would be no more than one.
	for _, k := range keysFrom(1, 4) {
		o.gone(k)
	}
	again.may(o, true, false, keyOf(0))

	// Only this agent has pushed since: what main lacks now, it lacked then.
	if err := again.repo.Removals.Approve(t.Context(), string(head)); err != nil {
		t.Fatal(err)
	}
	again.may(o, true, true, keyOf(0))

	restarted := newWorldWith(t, w.lastSaved(), w.remote)
	restarted.now = w.now
	restarted.run()
	restarted.until("contact", func() bool { return restarted.repo.Health().Contacted })
	restarted.track(o)
	o.delete(keyOf(12), w.now)
	o.delete(keyOf(13), w.now)
	restarted.may(o, false, false, keyOf(12), keyOf(13))
}

// An approval is of what main held at a commit. When others have pushed since and
// what it held is not known any more, it is not for what is gone by now.
func TestApprovalOfAnOlderCommitCoversNothingNewer(t *testing.T) {
	w, o := newCounted(t, 40)
	first := w.removeFiles(keysFrom(0, 5)...)
	w.removeFiles(keysFrom(5, 5)...)
	w.may(o, true, false, keysFrom(0, 10)...)
	if err := w.repo.Checkpoints.Save(t.Context()); err != nil {
		t.Fatal(err)
	}
	again := newWorldWith(t, w.lastSaved(), w.remote)
	again.run()
	again.until("contact", func() bool { return again.repo.Health().Contacted })
	again.track(o)
	if err := again.repo.Removals.Approve(t.Context(), string(first)); err != nil {
		t.Fatal(err)
	}
	again.may(o, true, false, keysFrom(0, 10)...)

	if err := w.repo.Removals.Approve(t.Context(), string(first)); err != nil {
		t.Fatal(err)
	}
	w.may(o, true, false, keysFrom(5, 5)...)
	w.may(o, true, true, keysFrom(0, 5)...)
}

// A claim that was made after the commit that was approved is not in it either,
// and yet no person approved its removal.
func TestApprovalCoversNoClaimThatIsYounger(t *testing.T) {
	w, o := newCounted(t, 40)
	head := w.removeFiles(keysFrom(0, 5)...)
	w.may(o, true, false, keysFrom(0, 5)...)
	if err := w.repo.Removals.Approve(t.Context(), string(head)); err != nil {
		t.Fatal(err)
	}
	w.may(o, true, true, keysFrom(0, 5)...)

	younger := keysFrom(40, 5)
	files := map[string]string{}
	for _, k := range younger {
		files[k.Path()] = fileOf(k, k.Name)
	}
	made := w.push(files)
	for _, k := range younger {
		e, _ := w.view().Main.Entry(k.Path())
		o.all[k] = Object{Key: k, Commit: made, Blob: e.Hash, Kind: "PostgresqlInstance"}
	}
	w.removeFiles(younger...)
	w.may(o, true, false, younger...)
}

func TestL10_MovedFileIsNoRemoval(t *testing.T) {
	other := contract.Key{Binding: api, Namespace: "team-a", Name: "renamed"}
	for _, tc := range []struct {
		name, path, data string
		moved            bool
	}{
		{"renamed in path and content", other.Path(), fileOf(other, "plan0"), true},
		{"moved without editing it", other.Path(), fileOf(keyOf(0), "plan0"), true},
		{"moved and edited, but not its name", other.Path(), fileOf(keyOf(0), "plan7"), true},
		{"moved out of all bindings", "archive/c0.yaml", fileOf(keyOf(0), "plan0"), true},
		{"renamed and edited", other.Path(), fileOf(other, "plan7"), true},
		{"something else", "README.md", "words", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w, o := newCounted(t, 20)
			head := w.push(map[string]string{keyOf(0).Path(): "", tc.path: tc.data})
			if !tc.moved {
				w.may(o, true, true, keyOf(0))
				return
			}
			v, err := w.repo.Removals.Judge(t.Context(), keyOf(0), true)
			if err != nil || v.Reason != contract.Moved || v.MovedTo != tc.path || !strings.Contains(v.Message, tc.path) {
				t.Errorf("got %+v %v", v, err)
			}
			if err := w.repo.Removals.Approve(t.Context(), string(head)); err != nil {
				t.Fatal(err)
			}
			w.may(o, true, true, keyOf(0))
		})
	}
}

func TestMoveIsKnownToTheNextProcess(t *testing.T) {
	other := contract.Key{Binding: api, Namespace: "team-a", Name: "renamed"}
	move := func(w *world) {
		w.Helper()
		w.put(w.person, other.Path(), fileOf(other, "plan0")) // added first: two commits, one push
		w.put(w.person, keyOf(0).Path(), "")
	}
	t.Run("which began before the push", func(t *testing.T) {
		w, o := newCounted(t, 20)
		w.push(map[string]string{keyOf(0).Path(): "", other.Path(): fileOf(other, "plan0")})
		// It was saved before anybody saw the new head.
		memory := w.lastSaved()
		if diff := cmp.Diff([]Move{{keyOf(0).Path(), other.Path()}}, memory.Moves); diff != "" {
			t.Fatal(diff)
		}
		o.all[other] = Object{Key: other, Commit: w.view().Main.Head()}
		again := newWorldWith(t, memory, w.remote)
		again.run()
		again.until("contact", func() bool { return again.repo.Health().Contacted })
		again.track(o)
		again.may(o, true, false, keyOf(0))
	})
	t.Run("which was not there", func(t *testing.T) {
		w, o := newCounted(t, 20)
		if err := w.repo.Checkpoints.Save(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.repo.Suspend()
		move(w)
		again := newWorldWith(t, w.lastSaved(), w.remote)
		again.run()
		again.until("contact", func() bool { return again.repo.Health().Contacted })
		again.track(o)
		// Now the object of the new file is made.
		o.all[other] = Object{Key: other, Commit: again.view().Main.Head()}
		again.may(o, true, false, keyOf(0))
	})
	t.Run("and a twin that was there before is none", func(t *testing.T) {
		w, o := newCounted(t, 20)
		head := w.push(map[string]string{other.Path(): fileOf(other, "plan0")})
		o.all[other] = Object{Key: other, Commit: head}
		w.removeFiles(keyOf(0))
		w.may(o, true, true, keyOf(0))
	})
}

func TestOwnRemovalBesideATwinIsNoMove(t *testing.T) {
	other := contract.Key{Binding: api, Namespace: "team-a", Name: "twin"}
	w, _ := newCounted(t, 20)
	before := w.writes()
	w.own(keyOf(0))
	w.view()
	_, err := w.repo.Update(t.Context(), store.Edit{Subject: "s", Apply: func(t *store.Tree) error { return t.Write(other.Path(), []byte(fileOf(other, "plan0"))) }})
	if err != nil {
		t.Fatal(err)
	}
	w.view()
	if w.writes() != before {
		t.Errorf("saved: %+v", w.lastSaved())
	}
}

// A delete that was approved is asked about again when its push failed, before
// main has moved.
func TestARefusedRemovalThatWasLetGoIsAskedAboutAgain(t *testing.T) {
	w, o := newCounted(t, 20)
	for _, k := range keysFrom(0, 5) {
		o.delete(k, w.now)
	}
	w.may(o, false, false, keysFrom(0, 5)...)
	if err := w.repo.Removals.Approve(t.Context(), string(w.view().Main.Head())); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		v, err := w.repo.Removals.Judge(t.Context(), keyOf(0), false)
		if v.IsHeld() || err != nil {
			t.Fatalf("approved, and yet: %+v %v", v, err)
		}
		if err := w.repo.Removals.Begin(t.Context(), keyOf(0), v); err != nil {
			t.Fatal(err)
		}
	}
}

// An approval that was made while the clocks were a day ahead is for what had begun by
// then, and for nothing that begins in the day until that time has come.
func TestL14_AnApprovalUnderAClockThatWasAheadEnds(t *testing.T) {
	t.Parallel()
	w, o := newCounted(t, 40)
	w.pass(24 * time.Hour)
	for _, k := range keysFrom(0, 5) {
		o.delete(k, w.now)
	}
	w.may(o, false, false, keysFrom(0, 5)...)
	if err := w.repo.Removals.Approve(t.Context(), string(w.view().Main.Head())); err != nil {
		t.Fatal(err)
	}
	w.may(o, false, true, keysFrom(0, 5)...)

	w.pass(-24 * time.Hour) // the clock is set right
	w.pass(time.Hour)
	for _, k := range keysFrom(5, 5) {
		o.delete(k, w.now)
	}
	w.may(o, false, false, keysFrom(5, 5)...)
	// Also when that time has come, and in the next process.
	w.pass(24 * time.Hour)
	w.may(o, false, false, keysFrom(5, 5)...)
	if err := w.repo.Checkpoints.Save(t.Context()); err != nil {
		t.Fatal(err)
	}
	again := newWorldWith(t, w.lastSaved(), w.remote)
	again.now = w.now
	again.run()
	again.until("contact", func() bool { return again.repo.Health().Contacted })
	again.track(o)
	again.may(o, false, false, keysFrom(5, 5)...)
	// They can be approved themselves.
	if err := again.repo.Removals.Approve(t.Context(), string(again.view().Main.Head())); err != nil {
		t.Fatal(err)
	}
	again.may(o, false, true, keysFrom(5, 5)...)
}

func TestL14_AnApprovalByAClockThatIsBehindCounts(t *testing.T) {
	t.Parallel()
	w, o := newCounted(t, 40)
	right := w.now
	w.pass(-time.Hour)
	for _, k := range keysFrom(0, 5) {
		o.delete(k, right)
	}
	w.may(o, false, false, keysFrom(0, 5)...)
	if err := w.repo.Removals.Approve(t.Context(), string(w.view().Main.Head())); err != nil {
		t.Fatal(err)
	}
	w.may(o, false, true, keysFrom(0, 5)...)
}

// What passed while the clock was ahead counts for as long as all else, and no longer.
func TestL14_WhatPassedUnderAClockThatWasAheadEnds(t *testing.T) {
	t.Parallel()
	w, o := newCounted(t, 40)
	w.pass(24 * time.Hour)
	for _, k := range keysFrom(0, 3) {
		o.delete(k, w.now)
	}
	w.may(o, false, true, keysFrom(0, 3)...)
	w.pass(-24 * time.Hour)
	o.delete(keyOf(3), w.now)
	w.may(o, false, false, keyOf(3))
	w.pass(10 * time.Minute)
	o.delete(keyOf(4), w.now)
	w.may(o, false, true, keyOf(4))
}

// What somebody orders in this cluster while a person removes a file is no move of it.
func TestL10_AnOrderOfThisClusterIsNoMove(t *testing.T) {
	t.Parallel()
	ordered := contract.Key{Binding: api, Namespace: "team-a", Name: "ordered"}
	for name, tc := range map[string]struct {
		generation int64
		passes     bool
	}{
		"an object that was made here":         {1, true},
		"an object that may be made of a file": {2, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, o := newCounted(t, 20)
			w.repo.Suspend()
			w.put(w.person, keyOf(0).Path(), "")
			konnector := store.Signature{}
			konnector.Name, konnector.Email = contract.ComponentIdentity(contract.Konnector, cluster)
			w.remote.Committer = konnector
			data := fileOf(ordered, "plan7")
			_, err := w.remote.Branch("main").Update(t.Context(), store.Edit{
				Author: store.Signature{Name: "Bob", Email: "bob@" + contract.ClusterDomain(cluster)}, Subject: "s",
				Trailers: []store.Trailer{{Key: contract.TrailerObject, Value: contract.ObjectTrailer{Key: ordered, UID: "u", Generation: tc.generation, Blob: "b"}.String()}},
				Apply:    func(t *store.Tree) error { return t.Write(ordered.Path(), []byte(data)) },
			})
			if err != nil {
				t.Fatal(err)
			}
			w.repo.Resume()
			w.sees(w.remote.Head("main"))
			w.may(o, true, tc.passes, keyOf(0))
		})
	}
}

// TestL10_HistoryTellsWhoRemovedWhereNoProcessLooked has another file of the kind come while
// nobody looked, as after a restore of the app cluster.
func TestL10_HistoryTellsWhoRemovedWhereNoProcessLooked(t *testing.T) {
	t.Parallel()
	other := contract.Key{Binding: api, Namespace: "team-a", Name: "renamed"}
	for name, tc := range map[string]struct {
		change func(*world, *objects)
		passes bool
	}{
		"somebody deleted the object": {func(w *world, o *objects) { w.own(keyOf(0)) }, true},
		"a person removed the file":   {func(w *world, o *objects) { w.put(w.person, keyOf(0).Path(), "") }, false},
		"a person removed it in its second life": {func(w *world, o *objects) {
			w.own(keyOf(0))
			w.put(w.person, keyOf(0).Path(), fileOf(keyOf(0), "again"))
			agreed := o.all[keyOf(0)]
			agreed.Commit = w.remote.Head("main")
			o.all[keyOf(0)] = agreed
			w.put(w.person, keyOf(0).Path(), "")
			// The oldest commit that is asked about is another claim's.
			w.put(w.person, keyOf(1).Path(), "")
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, o := newCounted(t, 20)
			if err := w.repo.Checkpoints.Save(t.Context()); err != nil {
				t.Fatal(err)
			}
			memory := w.lastSaved()
			tc.change(w, o)
			w.put(w.person, other.Path(), fileOf(other, "plan7"))
			again := newWorldWith(t, memory, w.remote)
			again.run()
			again.until("contact", func() bool { return again.repo.Health().Contacted })
			again.track(o)
			again.may(o, true, tc.passes, keyOf(0))
		})
	}
}

// TestL10_AFileThatMovesOnIsNoRemoval renames a file twice, each in a push of its own.
func TestL10_AFileThatMovesOnIsNoRemoval(t *testing.T) {
	t.Parallel()
	second := contract.Key{Binding: api, Namespace: "team-a", Name: "second"}
	third := contract.Key{Binding: api, Namespace: "team-a", Name: "third"}
	for name, tc := range map[string]struct {
		again  func(*world)
		passes bool
	}{
		"moved on": {func(w *world) { w.push(map[string]string{second.Path(): "", third.Path(): fileOf(third, "plan8")}) }, false},
		"moved on and back": {func(w *world) {
			w.push(map[string]string{second.Path(): "", keyOf(0).Path(): fileOf(keyOf(0), "plan8")})
			w.push(map[string]string{keyOf(0).Path(): ""})
		}, true},
		"removed": {func(w *world) { w.removeFiles(second) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, o := newCounted(t, 20)
			w.push(map[string]string{keyOf(0).Path(): "", second.Path(): fileOf(second, "plan7")})
			tc.again(w)
			w.may(o, true, tc.passes, keyOf(0))
			again := newWorldWith(t, w.lastSaved(), w.remote)
			again.run()
			again.until("contact", func() bool { return again.repo.Health().Contacted })
			again.track(o)
			if !tc.passes {
				again.may(o, true, false, keyOf(0))
			}
		})
	}
}
