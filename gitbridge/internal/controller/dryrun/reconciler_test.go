package dryrun

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/breaker"
	"gitbind.dev/gitbridge/claimdiff"
	"gitbind.dev/gitbridge/internal/session"
	"gitbind.dev/gitbridge/internal/tenant"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/memstore"
	"gitbind.dev/test/fakeapi"
)

const namespace = "gb-k3x9d2abqw"

// fixture has a cluster that is followed, whose claims are tried by try.
type fixture struct {
	*testing.T
	*Reconciler
	now   time.Time
	try   func(session.Proposed) session.Trial
	tried atomic.Int64
	// tryFor lasts as long as a try does.
	tryFor func(ctx context.Context)
}

func start(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{T: t, now: time.Unix(1_800_000_000, 0), try: func(session.Proposed) session.Trial { return session.Trial{} }}
	c := fakeapi.New(fakeapi.Builder().WithStatusSubresource(&v1alpha1.DryRun{}))
	remote := memstore.New()
	if _, err := remote.Branch("main").Update(t.Context(), store.Edit{Author: store.Signature{Name: "a", Email: "a@example.org"}, Subject: "begin", Apply: func(tree *store.Tree) error {
		return tree.Write("README.md", []byte("x"))
	}}); err != nil {
		t.Fatal(err)
	}
	began := make(chan struct{}, 1)
	s := session.New(session.Options{
		Cluster: tenant.Cluster{ID: "k3x9d2abqw", UID: "u", Namespace: namespace}, Main: remote.Branch("main"), Status: remote.Branch("status"),
		Now: time.Now, Limits: breaker.Default(), Save: func(context.Context, session.Checkpoint) error { return nil },
		Enqueue: func(string, bool) {}, Began: func() { began <- struct{}{} }, Changed: func() {},
		DryRun: func(ctx context.Context, p session.Proposed) session.Trial {
			f.tried.Add(1)
			if f.tryFor != nil {
				f.tryFor(ctx)
			}
			return f.try(p)
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx, make(chan store.Hash, 1), nil) }()
	t.Cleanup(func() { cancel(); <-done })
	<-began
	f.Reconciler = &Reconciler{Client: c, Server: c, Sessions: &session.Registry{}, IsOurs: func(string) bool { return true }, Now: func() time.Time { return f.now }}
	f.Sessions.Add(s)
	return f
}

// ask asks about so many claims.
func (f *fixture) ask(name string, claims int) *v1alpha1.DryRun {
	f.Helper()
	d := &v1alpha1.DryRun{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1alpha1.DryRunSpec{
		Change: v1alpha1.ProposedChange{Head: name}, AskedAt: metav1.NewTime(f.now),
	}}
	for i := range claims {
		d.Spec.Claims = append(d.Spec.Claims, v1alpha1.ProposedClaim{Path: fmt.Sprint("claim-", i), Content: "x"})
	}
	if err := f.Client.Create(f.Context(), d); err != nil {
		f.Fatal(err)
	}
	return d
}

func (f *fixture) reconcile(d *v1alpha1.DryRun) (time.Duration, error) {
	f.Helper()
	result, err := f.Reconcile(f.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: d.Name}})
	if err == nil {
		err = f.Client.Get(f.Context(), client.ObjectKeyFromObject(d), d)
	}
	return result.RequeueAfter, err
}

// Whatever a cluster's people propose, it has its pace, and a DryRun that was answered costs
// nothing more.
func TestAClusterHasItsPace(t *testing.T) {
	f := start(t)
	first, second := f.ask("first", 50), f.ask("second", 1)
	if _, err := f.reconcile(first); err != nil || !first.IsAnswered() || len(first.Status.Claims) != 50 {
		t.Fatalf("%+v, %v", first.Status, err)
	}
	if wait, err := f.reconcile(second); err != nil || second.IsAnswered() || wait != 50*perClaim {
		t.Fatalf("another one of the cluster is tried %+v, in %s, %v", second.Status, wait, err)
	}
	f.now = f.now.Add(50 * perClaim)
	if _, err := f.reconcile(second); err != nil || !second.IsAnswered() {
		t.Fatalf("%+v, %v", second.Status, err)
	}
	if wait, err := f.reconcile(first); err != nil || wait <= keptFor-time.Minute || f.tried.Load() != 51 {
		t.Errorf("again in %s, %d are tried, %v", wait, f.tried.Load(), err)
	}
	f.now = f.now.Add(keptFor)
	if _, err := f.reconcile(first); !apierrors.IsNotFound(err) {
		t.Errorf("an old one: %v", err)
	}
	// What nobody follows is not tried, and comes again.
	f.Sessions = &session.Registry{}
	third := f.ask("third", 1)
	if wait, err := f.reconcile(third); err != nil || third.IsAnswered() || wait != unfollowed {
		t.Errorf("%+v, in %s, %v", third.Status, wait, err)
	}
}

// A change that is replaced while it is tried has no answer of the version before.
func TestAReplacedChangeIsAnsweredAgain(t *testing.T) {
	f := start(t)
	d := f.ask("change", 1)
	f.try = func(session.Proposed) session.Trial {
		other := d.DeepCopy()
		other.Spec.Change.Head = "another"
		if err := f.Client.Update(t.Context(), other); err != nil {
			t.Error(err)
		}
		return session.Trial{Refused: "the one before"}
	}
	if _, err := f.reconcile(d); !apierrors.IsConflict(err) {
		t.Fatalf("%+v, %v", d.Status, err)
	}
	f.now, f.try = f.now.Add(time.Second), func(p session.Proposed) session.Trial { return session.Trial{Refused: p.Head} }
	if _, err := f.reconcile(d); err != nil || d.Status.Change.Head != "another" || d.Status.Claims[0].Refused != "another" {
		t.Errorf("%+v, %v", d.Status, err)
	}
}

// What is tried is what the API server has, so the answer names that, whatever the cache has.
func TestAnAnswerNamesTheVersionThatWasTried(t *testing.T) {
	f := start(t)
	d := f.ask("change", 1)
	f.Client = interceptor.NewClient(f.Client.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if err := c.Get(ctx, key, o, opts...); err != nil {
				return err
			}
			o.(*v1alpha1.DryRun).Spec.Change.Head = "the one before"
			return nil
		},
	})
	f.try = func(p session.Proposed) session.Trial { return session.Trial{Refused: p.Head} }
	if _, err := f.reconcile(d); err != nil || d.Status.Change.Head != "change" || d.Status.Claims[0].Refused != "change" {
		t.Errorf("%+v, %v", d.Status, err)
	}
}

func TestAnAnswerIsBounded(t *testing.T) {
	f := start(t)
	d := f.ask("change", 50)
	var fields []claimdiff.Change
	for i := range claimdiff.MaxFields {
		fields = append(fields, claimdiff.Change{Field: fmt.Sprint(strings.Repeat("<", 1000), i), After: strings.Repeat("\x00", claimdiff.MaxValue)})
	}
	f.try = func(session.Proposed) session.Trial {
		return session.Trial{Untried: strings.Repeat("&", 1<<20), Fields: fields, More: 7}
	}
	if _, err := f.reconcile(d); err != nil {
		t.Fatal(err)
	}
	for _, c := range d.Status.Claims {
		if len(c.Fields)+c.MoreFields != claimdiff.MaxFields+7 {
			t.Errorf("%s has %d fields and %d more", c.Path, len(c.Fields), c.MoreFields)
		}
	}
	if data, err := json.Marshal(d); err != nil || len(data) > 400<<10 {
		t.Errorf("an answer of %d bytes, %v", len(data), err)
	}
}

// An API server that does not store an answer for its size gets one without fields.
func TestAnAnswerThatIsTooLargeIsWrittenWithoutFields(t *testing.T) {
	f := start(t)
	d := f.ask("change", 2)
	f.try = func(session.Proposed) session.Trial {
		return session.Trial{Fields: []claimdiff.Change{{Field: "spec.plan", After: "small"}}, More: 1}
	}
	f.Client = interceptor.NewClient(f.Client.(client.WithWatch), interceptor.Funcs{
		SubResourceUpdate: func(ctx context.Context, c client.Client, name string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			if len(o.(*v1alpha1.DryRun).Status.Claims[0].Fields) > 0 {
				return fakeapi.TooLarge()
			}
			return c.SubResource(name).Update(ctx, o, opts...)
		},
	})
	if _, err := f.reconcile(d); err != nil || !d.IsAnswered() || d.Status.Claims[1].MoreFields != 2 {
		t.Errorf("%+v, %v", d.Status, err)
	}
}

// One slow webhook does not have all claims of a change wait for it, and takes no more than half
// of the time.
func TestNothingIsTriedAfterAClaimThatTakesTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t)
		f.now = time.Now()
		f.Now = time.Now
		d, other := f.ask("change", 3), f.ask("other", 1)
		f.tryFor = func(ctx context.Context) { <-ctx.Done() }
		f.try = func(session.Proposed) session.Trial {
			return session.Trial{Untried: session.TookTooLong, Transient: true}
		}
		if _, err := f.reconcile(d); err != nil || f.tried.Load() != 1 || len(d.Status.Claims) != 3 {
			t.Fatalf("%d are tried: %+v, %v", f.tried.Load(), d.Status, err)
		}
		for _, c := range d.Status.Claims {
			if c.Untried != session.TookTooLong || !c.Transient {
				t.Errorf("%+v", c)
			}
		}
		if wait, err := f.reconcile(other); err != nil || wait != claimTimeout {
			t.Errorf("another one in %s, %v", wait, err)
		}
	})
}

func TestWhatOthersWaitForIsForgotten(t *testing.T) {
	r := &Reconciler{Now: func() time.Time { return time.Unix(1_800_000_000, 0) }}
	r.begin("gb-a")
	r.Now = func() time.Time { return time.Unix(1_800_000_000, 0).Add(timeout) }
	if r.begin("gb-b"); len(r.next) != 1 {
		t.Errorf("%v", r.next)
	}
}
