package lease

import (
	"context"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"gitbind.dev/test/fakeapi"
)

// The clock of the holder is an hour off: what counts is since when it is seen.
func TestALeaseIsHeldUntilItWasSeenUnchangedForItsDuration(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "l"}, Spec: coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To("a"), LeaseDurationSeconds: ptr.To[int32](4), RenewTime: ptr.To(metav1.NewMicroTime(now.Add(-time.Hour))),
	}}
	c := fakeapi.New(fakeapi.Builder().WithObjects(l))
	o := &Observer{Server: c, Now: func() time.Time { return now }}
	want := func(what string, want bool) {
		t.Helper()
		if got, err := o.Held(t.Context(), "ns", "l"); err != nil || got != want {
			t.Errorf("%s: held %v, %v", what, got, err)
		}
	}
	update := func() {
		t.Helper()
		now = now.Add(readInterval)
		if err := c.Update(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
	exists := func(what string, want bool) {
		t.Helper()
		if _, got, err := o.State(t.Context(), "ns", "l"); err != nil || got != want {
			t.Errorf("%s: exists %v, %v", what, got, err)
		}
	}
	want("at first sight", true)
	exists("at first sight", true)
	now = now.Add(3 * time.Second)
	want("before it may be taken", true)
	l.Spec.RenewTime.Time = l.Spec.RenewTime.Add(3 * time.Second)
	update()
	now = now.Add(3 * time.Second)
	want("renewed", true)
	now = now.Add(4 * time.Second)
	want("not renewed any more", false)
	exists("not renewed any more", true)
	renewed := l.DeepCopy()
	if free, err := o.Free(t.Context(), c, "ns", "l"); err != nil || free {
		t.Errorf("it is taken away before those who stand by can take it: %v", err)
	}
	now = now.Add(o.standbyTime())
	if free, err := o.Free(t.Context(), c, "ns", "l"); err != nil || !free {
		t.Errorf("it cannot be taken away: %v", err)
	}
	want("taken away", false)
	exists("taken away", true)
	if free, err := o.Free(t.Context(), c, "ns", "l"); err != nil || !free {
		t.Errorf("it can be taken away once only: %v", err)
	}
	if err := c.Update(t.Context(), renewed); !apierrors.IsConflict(err) {
		t.Errorf("who had it can renew it: %v", err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(l), l); err != nil || holderOf(l) == "" {
		t.Errorf("it looks as if it was released, so that who had it takes it again and goes on: %v", err)
	}
	l.Spec.HolderIdentity = ptr.To("b")
	update()
	want("taken by another", true)
	if free, err := o.Free(t.Context(), c, "ns", "l"); err != nil || free {
		t.Errorf("it is taken away from who renews it: %v", err)
	}
	l.Spec.HolderIdentity = ptr.To("")
	update()
	want("released", false)
	exists("released", true)
	if err := c.Delete(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	now = now.Add(readInterval)
	want("not there", true)
	exists("not there", false)
	now = now.Add(time.Hour)
	want("still not there, an hour later: it may be about to be made", true)
	now = now.Add(Default().Duration)
	want("not there for as long as Leases last", false)
	exists("not there for as long as Leases last", false)
	now = now.Add(o.standbyTime())
	if free, err := o.Free(t.Context(), c, "ns", "l"); err != nil || !free {
		t.Errorf("who did without can take it: %v", err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(l), l); err != nil {
		t.Fatal(err)
	}
	l.Spec.HolderIdentity = ptr.To("c")
	update()
	want("made", true)
}

func TestABridgeRunsOnceItWasSeenToTakeOrRenewItsLease(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	c := fakeapi.New(fakeapi.Builder())
	o := &Observer{Server: c, Now: func() time.Time { return now }}
	want := func(what string, want bool) {
		t.Helper()
		now = now.Add(readInterval)
		if got, err := o.Runs(t.Context(), "ns", "l"); err != nil || got != want {
			t.Errorf("%s: runs %v, %v", what, got, err)
		}
	}
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "l"}}
	write := func(holder string) {
		t.Helper()
		l.Spec = coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: ptr.To[int32](4), RenewTime: ptr.To(metav1.NewMicroTime(now))}
		var err error
		if l.ResourceVersion == "" {
			err = c.Create(t.Context(), l)
		} else {
			err = c.Update(t.Context(), l)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	want("not there", false)
	now = now.Add(time.Minute)
	write("a")
	want("at first sight", false)
	write("a")
	want("renewed", true)
	now = now.Add(4 * time.Second)
	want("not renewed any more", false)
	write("")
	want("released", false)
	write("b")
	want("taken", true)
	write("b")
	now = now.Add(time.Hour)
	want("renewed an hour ago", false)
}

// Many clusters may wait for one Lease.
func TestWhoAsksAtTheSameTimeIsAnsweredByOneRead(t *testing.T) {
	now, reads := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC), 0
	c := fakeapi.New(fakeapi.Builder(), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, o ...client.GetOption) error {
			reads++
			return c.Get(ctx, key, into, o...)
		},
	})
	o := &Observer{Server: c, Now: func() time.Time { return now }}
	for range 10 {
		if held, err := o.Held(t.Context(), "ns", "l"); err != nil || !held {
			t.Errorf("held: %t, %v", held, err)
		}
	}
	if reads != 1 {
		t.Errorf("%d reads, want 1", reads)
	}
}
