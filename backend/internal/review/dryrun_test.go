package review

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/backend/internal/login"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/test/fakeapi"
)

// trying is a service whose control plane has DryRuns, and a bridge that a test plays.
type trying struct {
	*world
	*Service
	*testing.T
	control client.Client
	at      time.Time
	// writes is how often the backend wrote a DryRun.
	writes int
}

func newTrying(t *testing.T) *trying {
	t.Helper()
	w, objects := quotaWorld(t, nil)
	y := &trying{world: w, Service: w.service(t, nil), T: t, at: time.Unix(1_800_000_000, 0)}
	count := func(o client.Object) {
		if _, ok := o.(*v1alpha1.DryRun); ok {
			y.writes++
		}
	}
	y.control = fakeapi.New(fakeapi.Builder().WithObjects(append(objects, &v1alpha1.ClusterBinding{ObjectMeta: metav1.ObjectMeta{Name: cluster}})...).
		WithStatusSubresource(&v1alpha1.DryRun{}), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			count(o)
			return c.Create(ctx, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			count(o)
			return c.Update(ctx, o, opts...)
		},
	})
	y.Control, y.DryRuns, y.Now = y.control, y.control, func() time.Time { return y.at }
	return y
}

// asked is what the bridge sees.
func (y *trying) asked() *v1alpha1.DryRun {
	y.Helper()
	d := &v1alpha1.DryRun{}
	if err := y.control.Get(y.Context(), client.ObjectKey{Namespace: v1alpha1.TenantNamespace(cluster), Name: dryRunName(y.change.Branch)}, d); err != nil {
		y.Fatal(err)
	}
	return d
}

// running are checks on a host, until the test ends.
func (y *trying) running(host githost.Checks) *Checks {
	c := NewChecks(y.Service, host, func(string, restapi.RefEvent) {})
	var running sync.WaitGroup
	running.Go(func() { c.Run(y.Context()) })
	y.Cleanup(running.Wait)
	return c
}

// answer answers as the bridge.
func (y *trying) answer(claims ...v1alpha1.TriedClaim) {
	y.Helper()
	d := y.asked()
	d.Status = v1alpha1.DryRunStatus{ObservedGeneration: d.Generation, TriedAt: new(metav1.NewTime(y.at)), Change: d.Spec.Change, Claims: claims}
	if err := y.control.Status().Update(y.Context(), d); err != nil {
		y.Fatal(err)
	}
}

// look looks at the change without patience.
func (y *trying) look() []restapi.ChangedFile {
	y.Helper()
	files, _ := y.Service.files(y.Context(), cluster, &y.change, false)
	return files
}

func TestWhatTheAPIServerSaysIsShownAtTheFile(t *testing.T) {
	y := newTrying(t)
	orders, fresh, gone := y.becomes("orders", "nano", "small"), y.becomes("fresh", "", "nano"), y.becomes("gone", "nano", "")
	bad := y.becomes("bad", "nano", "huge")
	for _, f := range y.look() {
		if want := map[string]string{orders: notAnswered, fresh: notAnswered}[f.Path]; f.Untried != want || f.Path == bad && f.Problem == "" {
			t.Errorf("before an answer: %+v", f)
		}
	}
	var paths []string
	for _, c := range y.asked().Spec.Claims {
		paths = append(paths, c.Path)
	}
	// A removal that is held, and what is refused anyway, is not asked about.
	if d := cmp.Diff([]string{orders, fresh}, paths); d != "" || gone == "" {
		t.Fatal(d)
	}
	y.answer(
		v1alpha1.TriedClaim{Path: orders, Refused: "nano is for ever"},
		v1alpha1.TriedClaim{Path: fresh, Fields: []v1alpha1.FieldChange{
			{Field: "apiVersion", After: "anynines.com/v1"}, {Field: "spec.plan", After: "postgresql-single-big"}, {Field: "spec.expose", After: "Internal"},
		}},
	)
	for _, f := range y.look() {
		switch f.Path {
		case orders:
			if f.Problem != "nano is for ever" || f.Untried != "" {
				t.Errorf("refused: %+v", f)
			}
		case fresh:
			effective := []restapi.FieldChange{{Field: "spec.plan", After: "postgresql-single-big"}, {Field: "spec.expose", After: "Internal"}}
			if d := cmp.Diff(effective, f.Effective); d != "" || len(f.Unchanged) != 1 || f.Unchanged[0] != "spec.service" || f.Problem+f.Untried != "" {
				t.Errorf("%s%+v", d, f)
			}
		}
	}
	if y.writes != 1 {
		t.Errorf("%d writes for one change", y.writes)
	}
	// A person sees the same.
	c, err := y.Service.Change(t.Context(), login.Identity{Username: "alice"}, cluster, y.change.Branch)
	if err != nil || c.Files[0].Problem != "nano is for ever" {
		t.Errorf("%+v, %v", c, err)
	}
}

// Somebody who pushes often has no more tried and written than the bridge answers, and an answer
// is about nothing but the version that was tried.
func TestAnAnswerIsOfJustOneVersion(t *testing.T) {
	y := newTrying(t)
	orders := y.becomes("orders", "nano", "small")
	refused := v1alpha1.TriedClaim{Path: orders, Refused: "no"}
	shows := func(what, problem string, writes int) {
		t.Helper()
		if f := y.look()[0]; f.Problem != problem || (f.Untried == "") != (problem != "") || y.writes != writes {
			t.Errorf("%s: %+v after %d writes, want %q after %d", what, f, y.writes, problem, writes)
		}
	}
	shows("asked", "", 1)
	y.change.Head = strings.Repeat("b", 40)
	shows("replaced before an answer", "", 1)
	y.answer(refused) // About the first one.
	shows("an answer about another version", "", 2)
	y.answer(refused)
	shows("answered", "no", 2)
	y.at = y.at.Add(askAgainAfter + time.Second)
	shows("an old answer stays until the next one", "no", 3)
	y.change.Effect = strings.Repeat("f", 40)
	shows("another effect", "", 3)
	y.at = y.at.Add(unansweredFor)
	shows("the bridge is away", "", 4)
	y.at = y.at.Add(time.Hour)
	shows("the bridge is away for long", "", 4)
	y.at = y.at.Add(lookEvery)
	shows("a bridge that comes back finds it new", "", 5)
	y.at = y.at.Add(-24 * time.Hour)
	shows("asked by a clock that was ahead", "", 6)
	y.change.Effect = ""
	if f := y.look()[0]; f.Untried != "" || y.writes != 6 {
		t.Errorf("what cannot be merged: %+v", f)
	}
}

func TestWhatIsTriedIsBounded(t *testing.T) {
	y := newTrying(t)
	for i := range v1alpha1.MaxDryRunClaims + 5 {
		y.becomes(fmt.Sprintf("many-%02d", i), "", "nano")
	}
	bounded := 0
	for _, f := range y.look() {
		if strings.Contains(f.Untried, "50 claims of 64 KiB together") {
			bounded++
		}
	}
	if n := len(y.asked().Spec.Claims); bounded != 5 || n != v1alpha1.MaxDryRunClaims {
		t.Errorf("%d are asked about, and of %d it is said that they are not", n, bounded)
	}
	// Large files, and as many changes as there may be.
	y = newTrying(t)
	y.becomes("large", "", "nano")
	large := &y.change.Files[0]
	// Six bytes for each where it is stored.
	large.Is = append(large.Is, "# "+strings.Repeat("<", v1alpha1.MaxDryRunBytes/6)...)
	if f := y.look()[0]; !strings.Contains(f.Untried, "64 KiB") || y.writes != 0 {
		t.Errorf("%+v after %d writes", f, y.writes)
	}
	y = newTrying(t)
	y.becomes("orders", "", "nano")
	proposed := y.change
	for i := range v1alpha1.MaxDryRuns {
		y.change.Branch, y.change.Head = fmt.Sprint("changes/", i), fmt.Sprint("head ", i)
		y.look()
	}
	y.change = proposed
	open := func(branches ...string) {
		y.listed = nil
		for _, b := range branches {
			y.listed = append(y.listed, githost.Change{Branch: b})
		}
	}
	var all []string
	for i := range v1alpha1.MaxDryRuns {
		all = append(all, fmt.Sprint("changes/", i))
	}
	open(all...)
	if f := y.look()[0]; f.Untried != errManyDryRuns.Error() || y.writes != v1alpha1.MaxDryRuns {
		t.Errorf("%+v after %d writes", f, y.writes)
	}
	open(all[1:]...)
	if f := y.look()[0]; f.Untried != notAnswered || y.writes != v1alpha1.MaxDryRuns+1 {
		t.Errorf("after one was merged: %+v, %d writes", f, y.writes)
	}
}

// A change that is reviewed elsewhere shows at once what is known, and what the API server says
// when that comes.
func TestTheCheckIsPendingUntilTheBridgeAnswers(t *testing.T) {
	y := newTrying(t)
	orders := y.becomes("orders", "", "nano")
	host := &shown{}
	c := NewChecks(y.Service, host, func(string, restapi.RefEvent) {})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { c.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	c.Moved(cluster, restapi.RefEvent{Ref: "refs/heads/" + y.change.Branch})
	if got := host.await(t, 1); got.OK || !got.Pending || got.Words != "It orders 1 service, being tried on the control plane" || !strings.Contains(got.Text, literal(notAnswered)) {
		t.Errorf("%+v", got)
	}
	y.answer(v1alpha1.TriedClaim{Path: orders, Refused: "the platform says <no>"})
	c.Tried(cluster)
	if got := host.await(t, 2); got.OK || got.Pending || got.Words != "team-a/orders would be refused: the platform says <no>" || strings.Contains(got.Text, "<no>") {
		t.Errorf("%+v", got)
	}
	if err := c.check(ctx, cluster, aPass(false)); err != nil {
		t.Fatal(err)
	}
	host.await(t, 2) // The same is no news.
	y.answer(v1alpha1.TriedClaim{Path: orders, Fields: []v1alpha1.FieldChange{{Field: "spec.expose", After: "In|ternal"}}})
	if err := c.check(ctx, cluster, aPass(false)); err != nil {
		t.Fatal(err)
	}
	if got := host.await(t, 3); !got.OK || got.Words != "It orders 1 service" || !strings.Contains(got.Text, "| on the control plane | <code>spec&#46;expose</code> |  | <code>In&#124;ternal</code> |") {
		t.Errorf("%+v", got)
	}
}

// A check that the control plane made red is not green again because the bridge has deleted its
// answer, after a day, or because another effect is asked about.
func TestARedCheckIsNotGreenWhileItIsAskedAgain(t *testing.T) {
	for name, forget := range map[string]func(y *trying){
		"the answer was deleted after a day": func(y *trying) {
			if err := y.control.Delete(y.Context(), y.asked()); err != nil {
				y.Fatal(err)
			}
		},
		"main moved, and the effect is another one": func(y *trying) { y.change.Effect = "another" },
	} {
		t.Run(name, func(t *testing.T) {
			y := newTrying(t)
			orders := y.becomes("orders", "", "nano")
			host := &shown{}
			c := NewChecks(y.Service, host, func(string, restapi.RefEvent) {})
			try := func() {
				if err := c.check(t.Context(), cluster, aPass(true)); err != nil {
					t.Fatal(err)
				}
			}
			try()
			y.answer(v1alpha1.TriedClaim{Path: orders, Refused: "no"})
			try()
			if last := host.all[len(host.all)-1]; last.OK || last.Pending {
				t.Fatalf("%+v", last)
			}
			forget(y)
			try()
			if last := host.all[len(host.all)-1]; last.OK || !last.Pending {
				t.Errorf("the same head, which would be refused, shows success: %+v", last)
			}
			// Not for ever, as the bridge may be away.
			y.at = y.at.Add(pendingFor)
			try()
			if last := host.all[len(host.all)-1]; !last.OK || last.Pending || last.Words != "It orders 1 service, not tried on the control plane" {
				t.Errorf("after %s: %+v", pendingFor, last)
			}
		})
	}
}

// listing is a Git that has each change of the list.
type listing struct{ *world }

func (l listing) Change(_ context.Context, _, branch string) (*githost.Change, error) {
	c := l.listed[slices.IndexFunc(l.listed, func(c githost.Change) bool { return c.Branch == branch })]
	return &c, nil
}

// What is proposed on a branch and by its pull request has one commit, and that has one check, also
// where there is room for just one of them to be tried.
func TestABranchAndItsPullRequestAreTriedOnce(t *testing.T) {
	t.Parallel()
	y := newTrying(t)
	orders := y.becomes("orders", "", "nano")
	proposed := y.change
	for i := range v1alpha1.MaxDryRuns - 1 {
		y.change.Branch, y.change.Head = fmt.Sprint("changes/", i), fmt.Sprint("head ", i)
		y.look()
		y.listed = append(y.listed, y.change)
	}
	y.change = proposed
	y.listed, y.Git = append(y.listed, proposed), listing{y.world}
	host := &shown{}
	c := NewChecks(y.Service, host, func(string, restapi.RefEvent) {})
	shows := func(what string, pending bool) {
		t.Helper()
		if err := c.check(t.Context(), cluster, aPass(true)); err != nil {
			t.Fatal(err)
		}
		var last githost.Check
		for _, check := range host.all {
			if check.Commit == proposed.Head {
				last = check
			}
		}
		if last.OK || last.Pending != pending || y.writes != v1alpha1.MaxDryRuns {
			t.Errorf("%s: %+v after %d writes", what, last, y.writes)
		}
	}
	shows("not answered", true)
	y.answer(v1alpha1.TriedClaim{Path: orders, Refused: "no"})
	shows("refused", false)
	pull := proposed
	pull.Branch = githost.PullPrefix + "7"
	y.listed = append(y.listed, pull)
	shows("with its pull request", false)
	// The branch goes on, and has its own again.
	at := slices.IndexFunc(y.listed, func(c githost.Change) bool { return c.Branch == proposed.Branch })
	y.listed[at].Head = "another"
	if err := c.check(t.Context(), cluster, aPass(true)); err != nil || y.asked().Spec.Change.Head != "another" {
		t.Errorf("it is asked about %+v, %v", y.asked().Spec.Change, err)
	}
}

// A branch goes on before its pull request does, which takes a place of its own only meanwhile.
func TestAPullRequestBehindItsBranchGivesItsPlaceBack(t *testing.T) {
	t.Parallel()
	y := newTrying(t)
	y.becomes("orders", "", "nano")
	look := func(branch, head string) int {
		t.Helper()
		y.change.Branch, y.change.Head = branch, head
		y.at = y.at.Add(time.Hour) // What waits for its answer is replaced then.
		y.look()
		var all v1alpha1.DryRunList
		if err := y.Control.List(t.Context(), &all, client.InNamespace(v1alpha1.TenantNamespace(cluster))); err != nil {
			t.Fatal(err)
		}
		return len(all.Items)
	}
	branch, pull := "changes/orders", githost.PullPrefix+"7"
	for _, step := range []struct {
		branch, head string
		want         int
	}{{branch, "a", 1}, {pull, "a", 1}, {branch, "b", 1}, {pull, "a", 2}, {pull, "b", 1}, {branch, "b", 1}} {
		if got := look(step.branch, step.head); got != step.want {
			t.Errorf("%s at %s: %d are asked about", step.branch, step.head, got)
		}
	}
}

// flaky fails to write once.
type flaky struct {
	client.Writer
	failed bool
}

func (f *flaky) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	if !f.failed {
		f.failed = true
		return errors.New("connection refused")
	}
	return f.Writer.Create(ctx, o, opts...)
}

// A moment in which the control plane does not answer does not leave a check without its word.
func TestACheckAsksAgainAfterTheControlPlaneWasAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newTrying(t)
		y.becomes("orders", "", "nano")
		y.DryRuns = &flaky{Writer: y.control}
		c := y.running(&shown{})
		c.Moved(cluster, restapi.RefEvent{Ref: "refs/heads/" + y.change.Branch})
		time.Sleep(lookFirst)
		synctest.Wait()
		var all v1alpha1.DryRunList
		if err := y.control.List(t.Context(), &all); err != nil || len(all.Items) == 0 {
			t.Errorf("after %s it is not asked: %v", lookFirst, err)
		}
	})
}

// A backend that is started again hears of the answer to what it asked before.
func TestAnAnswerCountsAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newTrying(t)
		orders := y.becomes("orders", "", "nano")
		before := y.running(&shown{})
		if err := before.check(t.Context(), cluster, aPass(true)); err != nil {
			t.Fatal(err)
		}
		host := &shown{}
		c := y.running(host)
		y.answer(v1alpha1.TriedClaim{Path: orders, Refused: "no"})
		c.Tried(cluster)
		synctest.Wait()
		if len(host.all) != 1 || host.all[0].OK {
			t.Errorf("the check stays as it was before the answer: %+v", host.all)
		}
	})
}

// What may pass is asked for again, less and less often, and in the end is not known.
func TestWhatMayPassIsAskedForAgain(t *testing.T) {
	y := newTrying(t)
	orders := y.becomes("orders", "", "nano")
	host := &shown{}
	c := NewChecks(y.Service, host, func(string, restapi.RefEvent) {})
	looks := 0
	for began := y.at; y.at.Sub(began) < awaitedFor; looks++ {
		if err := c.check(t.Context(), cluster, aPass(false)); err != nil {
			t.Fatal(err)
		}
		last := host.all[len(host.all)-1]
		if pending := y.at.Sub(began) < pendingFor; last.Pending != pending || last.OK == pending {
			t.Errorf("after %s: %+v", y.at.Sub(began), last)
		}
		if d := y.asked(); !d.IsAnswered() {
			y.answer(v1alpha1.TriedClaim{Path: orders, Untried: "the control plane does not answer", Transient: true})
		}
		y.at = y.at.Add(max(y.at.Sub(began), lookFirst))
	}
	if len(host.all) > 4 || looks > 10 || y.writes < 5 {
		t.Errorf("%d looks and %d writes, and it shows %+v", looks, y.writes, host.all)
	}
	y.answer(v1alpha1.TriedClaim{Path: orders})
	if err := c.check(t.Context(), cluster, aPass(false)); err != nil {
		t.Fatal(err)
	}
	if last := host.all[len(host.all)-1]; !last.OK || last.Words != "It orders 1 service" {
		t.Errorf("%+v", last)
	}
}

// A bridge that is away has less and less written for it.
func TestWhatIsNotAnsweredIsReplacedLessOften(t *testing.T) {
	y := newTrying(t)
	y.becomes("orders", "", "nano")
	for range int(time.Hour / unansweredFor) {
		y.change.Effect += "x"
		y.look()
		y.at = y.at.Add(unansweredFor)
	}
	if y.writes > 13 {
		t.Errorf("%d writes in an hour", y.writes)
	}
}

// What is there of the control plane does not know what a DryRun is, or cannot be asked.
func TestWithoutTheDefinitionNothingIsAwaited(t *testing.T) {
	y := newTrying(t)
	y.becomes("orders", "", "nano")
	host := &shown{}
	y.CanTry = func() error { return ErrNoDryRuns }
	c := NewChecks(y.Service, host, func(string, restapi.RefEvent) {})
	if err := c.check(t.Context(), cluster, aPass(true)); err != nil {
		t.Fatal(err)
	}
	if last := host.all[0]; !last.OK || last.Pending || !strings.Contains(last.Text, literal(ErrNoDryRuns.Error())) || y.writes > 0 {
		t.Errorf("%+v", last)
	}
}
