package claim

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/decision"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/test/fakeapi"
)

func pathOf(name string) string {
	return contract.Key{Binding: binding, Namespace: "team-a", Name: name}.Path()
}

func manifest(name string) string { return strings.ReplaceAll(good, "orders", name) }

// many are n claims beside orders, applied and answered.
func (f *fixture) many(n int) []string {
	f.Helper()
	files := map[string]string{}
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("db-%d", i))
		files[pathOf(names[i])] = manifest(names[i])
	}
	f.pushAll(files)
	f.follow()
	f.step()
	for _, name := range names {
		if answer, _, _ := f.stepAt(pathOf(name)); answer == nil || answer.Result != contract.Applied {
			f.Fatalf("%s: %+v", name, answer)
		}
		f.stepAt(pathOf(name)) // watching shows it
	}
	return names
}

func (f *fixture) judge() {
	f.Helper()
	f.losses.mu.Lock()
	defer f.losses.mu.Unlock()
	if err := f.judgeLosses(f.Context()); err != nil {
		f.Fatal(err)
	}
}

// settle looks at a path until it is known how many vanished.
func (f *fixture) settle(path string) (*contract.Status, []string) {
	f.Helper()
	if _, _, wait := f.stepAt(path); wait == 0 || wait > moreLossesWait {
		f.Fatalf("again after %s, want to wait for more", wait)
	}
	f.now = f.now.Add(moreLossesWait)
	answer, calls, _ := f.stepAt(path)
	return answer, calls
}

// approve is an approval by a person.
func (f *fixture) approve(list string) {
	f.Helper()
	f.Session.Recreation.Set(list)
	f.approvedNow()
}

func (f *fixture) vanish(path string) {
	f.Helper()
	key, err := contract.ParsePath(path)
	if err != nil {
		f.Fatal(err)
	}
	f.set(key.Name, nil)
}

// restOfApproval has what is left of an approval written to its annotation.
func (f *fixture) restOfApproval() string {
	rest := f.Session.Recreation.Rest()
	f.Session.Recreation.Set(rest)
	return rest
}

// approvedNow has an approval taken up, and what was made again by it dropped.
func (f *fixture) approvedNow() {
	f.Helper()
	if _, err := f.takeApproval(f.Context()); err != nil {
		f.Fatal(err)
	}
	f.dropRecreated(f.Context())
}

func TestOneThatVanishedIsLostAndMadeAgainOnlyIfAPersonWantsIt(t *testing.T) {
	f := start(t)
	f.many(5)
	f.live = nil
	if answer, calls := f.settle(f.path); answer.Result != contract.Lost || slices.Contains(calls, "apply") || !strings.Contains(answer.Message, "--recreate-empty "+f.path) {
		t.Fatalf("answer %+v, calls %v", answer, calls)
	}
	if f.Session.Stops.Why() != nil {
		t.Error("one is not many")
	}
	f.approve("bindings/other/,\n" + pathOf("db-1"))
	if answer, calls, _ := f.step(); answer.Result != contract.Lost || slices.Contains(calls, "apply") {
		t.Errorf("another was approved: answer %+v, calls %v", answer, calls)
	}
	f.approve(f.path)
	if rest := f.restOfApproval(); rest != f.path {
		t.Errorf("before it is there, there is left %q", rest)
	}
	if answer, calls, _ := f.step(); answer.Result != contract.Applied || !slices.Contains(calls, "apply") || f.sent.GetResourceVersion() != "0" {
		t.Errorf("answer %+v, calls %v", answer, calls)
	}
	// What was approved was approved once.
	f.approvedNow()
	if rest := f.restOfApproval(); rest != "" {
		t.Errorf("when it is there, there is left %q", rest)
	}
	f.live = nil
	if answer, calls := f.settle(f.path); answer.Result != contract.Lost || slices.Contains(calls, "apply") {
		t.Errorf("answer %+v, calls %v", answer, calls)
	}
}

func TestWhenManyVanishNothingIsDone(t *testing.T) {
	f := start(t)
	names := f.many(9)
	before := f.remote.Head("status")
	kept := map[string]*unstructured.Unstructured{}
	for _, name := range names[:4] {
		kept[name] = f.others[name]
		f.others[name] = nil
	}
	f.settle(pathOf("db-0"))
	hold := f.Session.Stops.Why()
	if hold == nil || hold.Reason != "ControlPlaneLost" || !strings.Contains(hold.Message, "4 of 10 services") || !strings.Contains(hold.Message, pathOf("db-0")) {
		t.Fatalf("stalled %+v", hold)
	}
	// Neither removals nor changes nor anything else.
	f.pushAll(map[string]string{f.path: "", pathOf("db-8"): strings.ReplaceAll(manifest("db-8"), "nano", "small"), pathOf("db-9"): manifest("db-9")})
	f.follow()
	for _, path := range []string{f.path, pathOf("db-0"), pathOf("db-1"), pathOf("db-8"), pathOf("db-9")} {
		if _, calls, wait := f.stepAt(path); len(calls) > 0 || wait > 0 {
			t.Errorf("%s: calls %v, again after %s", path, calls, wait)
		}
	}
	if got := f.remote.Head("status"); got != before {
		t.Error("something was answered")
	}
	f.judge()
	if f.Session.Stops.Why() == nil {
		t.Fatal("it goes on though nothing is back")
	}

	t.Run("until they are back", func(t *testing.T) {
		for name, u := range kept {
			f.others[name] = u
		}
		f.judge()
		if hold := f.Session.Stops.Why(); hold != nil {
			t.Fatalf("stalled %+v", hold)
		}
		if answer, _, _ := f.stepAt(pathOf("db-0")); answer.Result != contract.Applied {
			t.Errorf("answer %+v", answer)
		}
	})
	t.Run("or a person wants them made again", func(t *testing.T) {
		for _, name := range names[:4] {
			f.others[name] = nil
		}
		f.settle(pathOf("db-0"))
		if f.Session.Stops.Why() == nil {
			t.Fatal("it goes on")
		}
		f.approve(contract.ClaimsPath(binding))
		f.judge()
		if f.Session.Stops.Why() != nil {
			t.Fatal("it does not go on")
		}
		for _, name := range names[:4] {
			if answer, calls, _ := f.stepAt(pathOf(name)); answer.Result != contract.Applied || !slices.Contains(calls, "apply") {
				t.Errorf("answer %+v, calls %v", answer, calls)
			}
		}
	})
}

// One of them cannot be made, as its file is invalid by now: it waits alone.
func TestAnApprovalOfAFolderIsForWhatWasMissingWhenItWasGiven(t *testing.T) {
	t.Parallel()
	f := start(t)
	names := f.many(9)
	invalid, made := pathOf(names[0]), pathOf(names[1])
	for _, path := range []string{invalid, made} {
		f.vanish(path)
		if answer, _ := f.settle(path); answer.Result != contract.Lost {
			t.Fatalf("answer %+v", answer)
		}
	}
	f.pushAll(map[string]string{invalid: strings.ReplaceAll(manifest(names[0]), "plan:", "plam:"), pathOf("never"): manifest("never")})
	f.follow()
	f.approve(contract.ClaimsPath(binding))
	for path, want := range map[string]contract.Result{invalid: contract.Invalid, made: contract.Applied} {
		if answer, _, _ := f.stepAt(path); answer.Result != want {
			t.Fatalf("answer %+v", answer)
		}
	}
	f.approvedNow()
	for _, process := range []string{"this one", "the next one"} {
		rest := f.restOfApproval()
		if rest != invalid {
			t.Fatalf("%s: there is left %q", process, rest)
		}
		f.Session.Recreation.Set("")
		f.approve(rest)
	}

	later := []string{made, pathOf(names[2]), pathOf(names[3]), pathOf(names[4])}
	for _, path := range later {
		f.vanish(path)
	}
	f.approvedNow()
	for _, path := range later {
		if answer, calls, _ := f.stepAt(path); slices.Contains(calls, "apply") {
			t.Errorf("%s was made again, empty: %+v", path, answer)
		}
	}
	f.now = f.now.Add(moreLossesWait)
	f.stepAt(made)
	if stop := f.Session.Stops.Why(); stop == nil || stop.Reason != "ControlPlaneLost" || !strings.Contains(stop.Message, "4 of 11") {
		t.Errorf("stop %+v", stop)
	}
	f.Session.Stops.Set(nil)
	f.pushAll(map[string]string{invalid: manifest(names[0])})
	f.follow()
	if answer, _, _ := f.stepAt(invalid); answer.Result != contract.Applied {
		t.Errorf("when it can be made: %+v", answer)
	}
}

// What cannot be seen is not missing for an approval of a folder. It is for one that names it, and
// for what was told as lost.
func TestAnApprovalWhileAnAPIIsNotGranted(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.many(5)
	lost, named := pathOf("db-0"), pathOf("db-1")
	f.vanish(lost)
	f.settle(lost)
	f.pushAll(map[string]string{pathOf("never"): manifest("never")})
	f.follow()
	f.access = decision.NotGranted
	for _, test := range []struct{ list, want string }{
		{contract.ClaimsPath(binding), lost},
		{contract.Root + "/," + named, lost + "," + named},
		{named + "\n" + pathOf("never"), named},
	} {
		f.approve(test.list)
		if rest := f.restOfApproval(); rest != test.want {
			t.Errorf("of %q there is left %q", test.list, rest)
		}
	}
	f.access = ""
	f.approvedNow()
	if rest := f.restOfApproval(); rest != "" {
		t.Errorf("once it is seen that %s is there, there is left %q", named, rest)
	}
}

func TestWhatGoesOneAfterTheOtherIsManyToo(t *testing.T) {
	f := start(t)
	names := f.many(19)
	for i, name := range names[:4] {
		f.others[name] = nil
		answer, _ := f.settle(pathOf(name))
		if lost := answer.Result == contract.Lost; lost != (i < 3) || (f.Session.Stops.Why() == nil) != lost {
			t.Errorf("%d: answer %s, stalled %+v", i, answer.Result, f.Session.Stops.Why())
		}
		f.now = f.now.Add(time.Minute)
	}
}

func TestAnAPIThatIsNotServedAnyMoreIsALoss(t *testing.T) {
	f := start(t)
	f.many(3)
	f.access = decision.NotServed
	f.settle(pathOf("db-0"))
	if f.Session.Stops.Why() == nil {
		t.Error("it goes on")
	}
}

// It cannot be told then what is there.
func TestAKindThatCannotBeWatchedIsNoLoss(t *testing.T) {
	f := start(t)
	names := f.many(5)
	f.watchErr = errors.New("watch: forbidden")
	f.stepAt(pathOf(names[0]))
	f.losses.mu.Lock()
	err := f.judgeLosses(t.Context())
	f.losses.mu.Unlock()
	if err == nil {
		t.Error("judged without knowing")
	}
	f.now = f.now.Add(unwatched)
	if answer, _, _ := f.stepAt(pathOf(names[0])); answer.Result != contract.Failed || !strings.Contains(answer.Message, "may not watch") {
		t.Errorf("answer %+v", answer)
	}
	f.judge()
	if f.Session.Stops.Why() != nil {
		t.Errorf("stalled %+v", f.Session.Stops.Why())
	}
}

func TestAnObjectThatGoesIsALossAndOneOfOursIsNot(t *testing.T) {
	f := start(t)
	names := f.many(9)
	for _, name := range names[:4] {
		f.others[name] = f.others[name].DeepCopy()
		f.others[name].SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)})
	}
	f.pushAll(map[string]string{pathOf(names[0]): ""})
	f.follow()
	if answer, _, _ := f.stepAt(pathOf(names[0])); answer.Result != contract.Deleting {
		t.Errorf("answer %+v", answer)
	}
	answer, _ := f.settle(pathOf(names[1]))
	if answer.Result != contract.Deleting || f.Session.Stops.Why() != nil {
		t.Errorf("three: answer %+v, stalled %+v", answer, f.Session.Stops.Why())
	}
}

func TestAnApplyIsMadeOnWhatWasDecidedOn(t *testing.T) {
	f := start(t)
	f.step()
	if got := f.sent.GetResourceVersion(); got != "0" || f.sent.GetUID() != "" {
		t.Errorf("created with version %q", got)
	}
	f.push(strings.ReplaceAll(good, "nano", "small"))
	f.follow()
	version, uid := f.live.GetResourceVersion(), f.live.GetUID()
	if answer, calls, _ := f.step(); answer.Result != contract.Applied || !slices.Equal(calls, []string{"apply"}) {
		t.Errorf("answer %+v, calls %v", answer, calls)
	}
	if f.sent.GetResourceVersion() != version || f.sent.GetUID() != uid {
		t.Errorf("applied on version %q of %q, want %s", f.sent.GetResourceVersion(), f.sent.GetUID(), version)
	}
}

// A bridge was stopped after it had decided, and its successor applied a newer
// version: the old one must not take its place.
func TestAnOldVersionDoesNotTakeThePlaceOfANewerOne(t *testing.T) {
	for _, exists := range []bool{false, true} {
		t.Run(fmt.Sprintf("exists=%v", exists), func(t *testing.T) {
			f := start(t)
			if exists {
				f.step()
				f.push(strings.ReplaceAll(good, "nano", "small"))
				f.follow()
			}
			step, err := f.look(t.Context(), f.Session.View(), f.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			// Here it sleeps, and meanwhile:
			newer := strings.ReplaceAll(good, "nano", "big")
			f.push(newer)
			successor := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"plan": "postgresql-single-big"}}}
			successor.SetGroupVersionKind(kind)
			successor.SetName("orders")
			successor.SetUID("1")
			if exists {
				successor.SetUID(f.live.GetUID())
			}
			successor.SetResourceVersion(fakeapi.NewVersion())
			f.live = successor
			if _, err := f.patchAs(step); !isStale(err) {
				t.Errorf("got %v", err)
			}
			if f.live != successor {
				t.Error("an old version took its place")
			}
		})
	}
}

func (f *fixture) patchAs(s *step) (*unstructured.Unstructured, error) {
	data, err := on(s.object, s.found).MarshalJSON()
	if err != nil {
		return nil, err
	}
	return f.Controller.patch(f.Context(), s, data)
}

func TestWatchingThatIsBehindIsMadeUpFor(t *testing.T) {
	f := start(t)
	f.step()
	old := f.live
	f.live = old.DeepCopy()
	f.live.SetResourceVersion(fakeapi.NewVersion()) // the provider wrote status
	f.watched = func() *unstructured.Unstructured { return old }
	f.push(strings.ReplaceAll(good, "nano", "small"))
	f.follow()
	if answer, calls, _ := f.step(); answer.Result != contract.Applied || !slices.Equal(calls, []string{"apply", "get", "apply"}) {
		t.Errorf("answer %+v, calls %v", answer, calls)
	}
	// It was made before watching shows it.
	f.watched = func() *unstructured.Unstructured { return nil }
	f.cache.gone(f.path)
	f.pushAll(map[string]string{pathOf("x"): manifest("x")})
	f.follow()
	if answer, _, _ := f.stepAt(pathOf("x")); answer.Result != contract.Applied {
		t.Errorf("answer %+v", answer)
	}
}

func TestL10_AMovedFileDeletesNothing(t *testing.T) {
	other := pathOf("payments")
	otherKind := strings.ReplaceAll(manifest("payments"), "kind: PostgresqlInstance", "kind: Backup")
	for _, test := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"to another name", map[string]string{other: manifest("payments")}, other},
		{"with a default written out", map[string]string{other: manifest("payments") + "  expose: Internal\n"}, other},
		{"to another name and edited", map[string]string{other: strings.ReplaceAll(manifest("payments"), "nano", "small")}, other},
		{"to another place, unchanged", map[string]string{"bindings/" + binding + "/claims/team-b/orders.yaml": good}, "claims/team-b/orders.yaml"},
		{"out of the way", map[string]string{"bindings/old/orders.txt": good}, "bindings/old/orders.txt"},
		{"another kind", map[string]string{other: otherKind}, ""},
		{"nowhere", nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := start(t)
			f.step()
			f.live = f.live.DeepCopy()
			_ = unstructured.SetNestedField(f.live.Object, "by the provider", "spec", "resourceRef")
			files := map[string]string{f.path: ""}
			for path, content := range test.files {
				files[path] = content
			}
			f.pushAll(files)
			f.follow()
			answer, calls, _ := f.step()
			if held := test.want != ""; held != (answer.Result == contract.Held) || held == slices.Contains(calls, "delete") || held && answer.Reason != contract.Moved {
				t.Fatalf("answer %+v, calls %v", answer, calls)
			}
			if !strings.Contains(answer.Message, test.want) {
				t.Errorf("message %q", answer.Message)
			}
			if test.want == "" {
				return
			}
			if _, err := f.Session.ApproveRemovals(t.Context(), f.remote.Head("main")); err != nil {
				t.Fatal(err)
			}
			if answer, calls, _ := f.step(); answer.Result != contract.Deleting || !slices.Contains(calls, "delete") {
				t.Errorf("approved: answer %+v, calls %v", answer, calls)
			}
		})
	}
}

// A service stays that was there when its API was unbound, though its file is removed then: it is
// told that nothing was deleted, and binding the API again is no removal.
func TestWhatWasRemovedWhileItsAPIWasNotBoundStaysWhenItIsBoundAgain(t *testing.T) {
	f := start(t)
	f.step()
	f.access = decision.NotBound
	f.step()
	f.push("")
	f.follow()
	for _, f.access = range []decision.Access{decision.NotBound, ""} {
		answer, calls, _ := f.step()
		if answer.Result != contract.Held || answer.Reason != contract.NotRemoved || !strings.Contains(answer.Message, "nothing was deleted") || slices.Contains(calls, "delete") {
			t.Fatalf("now %q: %+v, calls %v", f.access, answer, calls)
		}
	}
	if _, err := f.Session.ApproveRemovals(t.Context(), f.remote.Head("main")); err != nil {
		t.Fatal(err)
	}
	if answer, calls, _ := f.step(); answer.Result != contract.Deleting || !slices.Contains(calls, "delete") {
		t.Errorf("approved: %+v, calls %v", answer, calls)
	}
}

// The backend may fail to write the rights once, and tries again.
func TestARemovalWhileTheRightsAreNotGrantedForAMomentGoesOn(t *testing.T) {
	f := start(t)
	f.step()
	f.access = decision.NotGranted
	f.push("")
	f.follow()
	if answer, calls, _ := f.step(); answer.Result != contract.Held || answer.Reason != "" || slices.Contains(calls, "delete") {
		t.Errorf("not granted: %+v, calls %v", answer, calls)
	}
	f.access = ""
	if answer, calls, _ := f.step(); answer.Result != contract.Deleting || !slices.Contains(calls, "delete") {
		t.Errorf("granted again: %+v, calls %v", answer, calls)
	}
}

// The object in the app cluster waits for its tombstone.
func TestAClaimThatWasDeletedWhileItsAPIWasNotBoundGoesWhenItIsBoundAgain(t *testing.T) {
	f := start(t)
	f.step()
	f.access = decision.NotBound
	f.removeAsKonnector("u1")
	f.follow()
	if answer, _, _ := f.step(); answer.Result != contract.Held || answer.Reason != "" {
		t.Errorf("not bound: %+v", answer)
	}
	f.access = ""
	if answer, calls, _ := f.step(); answer.Result != contract.Deleting || !slices.Contains(calls, "delete") {
		t.Errorf("bound again: %+v, calls %v", answer, calls)
	}
}

func TestAFileThatIsBackIsNotDeleted(t *testing.T) {
	f := start(t)
	f.step()
	f.push("")
	f.follow()
	step, err := f.look(t.Context(), f.Session.View(), f.path, nil)
	if err == nil {
		err = f.findRemoval(t.Context(), step)
	}
	if err != nil {
		t.Fatal(err)
	}
	f.push(good)
	f.follow()
	f.calls = nil
	if _, err := f.act(t.Context(), step); !errors.Is(err, errFileIsBack) || slices.Contains(f.calls, "delete") {
		t.Errorf("got %v, calls %v", err, f.calls)
	}
}

// Whatever the clock of who committed said.
func TestL15_ATombstoneIsDatedWhenItIsSet(t *testing.T) {
	f := start(t)
	f.now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for _, clock := range []time.Duration{-1000 * time.Hour, 1000 * time.Hour} {
		f.remote.Now = func() time.Time { return f.now.Add(clock) }
		f.people = f.remote.Branch("main")
		f.push(good)
		f.follow()
		f.step()
		f.push("")
		f.follow()
		f.step()
		f.live = nil
		want := f.now.UTC().Format(time.RFC3339)
		if answer, _, _ := f.step(); answer.Result != contract.Gone || answer.Since != want {
			t.Errorf("clock %s: answer %+v, want it since %s", clock, answer, want)
		}
	}
}

// The branch status went, and is fetched before it is noticed: nothing is known of what was
// applied, and an empty service is not made for that.
func TestNothingIsMadeAgainWhileStatusIsNotTheOneThatWasWritten(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.step()
	f.live = nil
	if answer, _ := f.settle(f.path); answer.Result != contract.Lost {
		t.Fatalf("answer %+v", answer)
	}
	before := f.remote.Head("status")
	f.remote.ForceHead("status", "")
	if _, err := f.status.Fetch(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, calls, _ := f.step(); slices.Contains(calls, "apply") || !f.Session.View().Held {
			t.Errorf("calls %v, main is held: %v", calls, f.Session.View().Held)
		}
	}
	f.remote.ForceHead("status", before)
	if _, err := f.status.Fetch(t.Context()); err != nil {
		t.Fatal(err)
	}
	if answer, calls, _ := f.step(); answer.Result != contract.Lost || slices.Contains(calls, "apply") {
		t.Errorf("answer %+v, calls %v", answer, calls)
	}
}

// What is decided while status says nothing is not done once it says something again.
func TestNothingIsMadeAgainForAnAnswerThatIsAnotherOneByNow(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.step()
	f.live = nil
	f.settle(f.path)
	before := f.remote.Head("status")
	f.remote.ForceHead("status", "")
	if _, err := f.status.Fetch(t.Context()); err != nil {
		t.Fatal(err)
	}
	s, err := f.look(t.Context(), f.Session.View(), f.path, nil)
	if err != nil {
		t.Fatal(err)
	}
	f.remote.ForceHead("status", before)
	if _, err := f.status.Fetch(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.calls = nil
	if o, err := f.act(t.Context(), s); err == nil || slices.Contains(f.calls, "apply") {
		t.Errorf("outcome %+v, calls %v", o, f.calls)
	}
}

// Somebody else wrote to the branch, and left observed.yaml alone.
func (f *fixture) garble(path, content string) {
	f.Helper()
	_, err := f.remote.Branch("status").Update(f.Context(), store.Edit{
		Author: store.Signature{Name: "alice", Email: "a@example.org"}, Subject: "merge",
		Apply: func(t *store.Tree) error { return t.Write(contract.StatusPath(path), []byte(content)) },
	})
	if err == nil {
		_, err = f.status.Fetch(f.Context())
	}
	if err != nil {
		f.Fatal(err)
	}
}

func TestAnAnswerThatCannotBeReadKeepsNothingFromItsClaim(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{"a conflict": "<<<<<<< HEAD\n", "another kind": "apiVersion: v1\nkind: ConfigMap\n", "nothing": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t)
			f.step()
			f.garble(f.path, content)
			f.push(strings.ReplaceAll(good, "nano", "small"))
			f.follow()
			if answer, calls, wait := f.step(); answer == nil || answer.Result != contract.Applied || !slices.Equal(calls, []string{"apply"}) || wait > 0 {
				t.Fatalf("an edit: answer %+v, calls %v, again after %s", answer, calls, wait)
			}
			f.garble(f.path, content)
			f.live = nil
			if answer, calls, _ := f.step(); answer == nil || answer.Result != contract.Lost || answer.Object != "gb-k3x9d2abqw-team-a/orders" || slices.Contains(calls, "apply") {
				t.Errorf("a loss: answer %+v, calls %v", answer, calls)
			}
		})
	}
}

// They may have been there, and may not.
func TestAnswersThatCannotBeReadKeepNoLossFromBeingTold(t *testing.T) {
	t.Parallel()
	f := start(t)
	names := f.many(9)
	for _, name := range names {
		f.vanish(pathOf(name))
	}
	for _, name := range names[1:] {
		f.garble(pathOf(name), "<<<<<<< HEAD\n")
	}
	if answer, _ := f.settle(pathOf(names[0])); answer == nil || answer.Result != contract.Lost {
		t.Errorf("answer %+v", answer)
	}
	if stop := f.Session.Stops.Why(); stop != nil {
		t.Errorf("stop %+v", stop)
	}
}

func TestAClaimWhoseAnswerCannotBeReadGoesOnlyByItsRemoval(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.step()
	f.garble(f.path, "<<<<<<< HEAD\n")
	f.push("")
	f.follow()
	if answer, calls, _ := f.step(); answer == nil || answer.Result != contract.Deleting || !slices.Contains(calls, "delete") {
		t.Errorf("removed: answer %+v, calls %v", answer, calls)
	}
	f.live = nil
	never := pathOf("never")
	f.garble(never, "<<<<<<< HEAD\n")
	if answer, calls, _ := f.stepAt(never); answer == nil || answer.Result != contract.Held || answer.Reason != contract.NotRemoved || slices.Contains(calls, "delete") {
		t.Errorf("not removed: answer %+v, calls %v", answer, calls)
	}
}
