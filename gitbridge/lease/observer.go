package lease

import (
	"context"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Observer tells of other processes' Leases whether they are held. Like those who stand
// by, it trusts no clock but its own: a Lease is held until it was seen unchanged for as
// long as it lasts.
type Observer struct {
	// Server reads from the API server, not from a cache.
	Server client.Reader
	Now    func() time.Time

	mu   sync.Mutex
	seen map[client.ObjectKey]sight
}

// sight is a Lease as it was seen, and since when.
type sight struct {
	holder, renewed string
	since           time.Time
}

// nobody is in the place of a holder whom a Lease was taken away from. It is not empty:
// a process that finds its Lease without a holder takes it again, and goes on.
const nobody = "nobody: it was not renewed, and its work was taken over"

// Held reports whether somebody may hold a Lease, and work. One that was released is
// held by nobody. One that is not there may be about to be made, or its process may do
// without: it counts as held for as long as others last.
func (o *Observer) Held(ctx context.Context, namespace, name string) (bool, error) {
	_, isHeld, err := o.look(ctx, client.ObjectKey{Namespace: namespace, Name: name}, 0)
	return isHeld, err
}

// standbyTime is how long those who stand by have to take a Lease that ran out, before it
// is taken away for good.
const standbyTime = 5 * time.Second

// Free sees to it that nobody holds a Lease, and reports whether that is so: one that was
// not renewed for as long as it lasts, and that nobody took then, is taken away. A process that hung, and goes on,
// cannot renew it then, and ends; until it has, its Guard lets nothing pass.
func (o *Observer) Free(ctx context.Context, w client.Writer, namespace, name string) (bool, error) {
	key := client.ObjectKey{Namespace: namespace, Name: name}
	l, isHeld, err := o.look(ctx, key, standbyTime)
	if isHeld || err != nil {
		return false, err
	}
	if holder := holderOf(l); l.ResourceVersion != "" && (holder == "" || holder == nobody) {
		return true, nil
	}
	l.Namespace, l.Name = namespace, name
	l.Spec.HolderIdentity, l.Spec.RenewTime = new(nobody), new(metav1.NewMicroTime(o.Now()))
	if l.ResourceVersion == "" {
		l.Spec.LeaseDurationSeconds = new(int32(Default().Duration / time.Second))
		err = w.Create(ctx, l)
	} else {
		err = w.Update(ctx, l)
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("take Lease %s away: %w", key, err)
	}
	return true, nil
}

// look reads a Lease; it is empty where there is none. More is for how much longer than it
// lasts it counts as held.
func (o *Observer) look(ctx context.Context, key client.ObjectKey, more time.Duration) (*coordinationv1.Lease, bool, error) {
	l, lasts, now := &coordinationv1.Lease{}, Default().Duration, sight{}
	err := o.Server.Get(ctx, key, l)
	if client.IgnoreNotFound(err) != nil {
		return nil, false, fmt.Errorf("get Lease %s: %w", key, err)
	}
	if err == nil {
		if now.holder = holderOf(l); now.holder == "" || now.holder == nobody {
			o.mu.Lock()
			defer o.mu.Unlock()
			delete(o.seen, key)
			return l, false, nil
		}
		if l.Spec.RenewTime != nil {
			now.renewed = l.Spec.RenewTime.String()
		}
		if l.Spec.LeaseDurationSeconds != nil {
			lasts = time.Duration(*l.Spec.LeaseDurationSeconds) * time.Second
		}
	}
	return l, o.age(key, now) < lasts+more, nil
}

func holderOf(l *coordinationv1.Lease) string {
	if l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}

// age is for how long a Lease was seen as it is now.
func (o *Observer) age(key client.ObjectKey, now sight) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.seen == nil {
		o.seen = map[client.ObjectKey]sight{}
	}
	before, known := o.seen[key]
	if now.since = o.Now(); known && before.holder == now.holder && before.renewed == now.renewed {
		return now.since.Sub(before.since)
	}
	o.seen[key] = now
	return 0
}
