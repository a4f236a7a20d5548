package lease

import (
	"context"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// Held reports whether somebody may hold a Lease, and work. One that was released is
// held by nobody. One that is not there may be about to be made, or its process may do
// without: it counts as held for as long as others last.
func (o *Observer) Held(ctx context.Context, namespace, name string) (bool, error) {
	var l coordinationv1.Lease
	key, lasts := client.ObjectKey{Namespace: namespace, Name: name}, Default().Duration
	var now sight
	switch err := o.Server.Get(ctx, key, &l); {
	case apierrors.IsNotFound(err):
	case err != nil:
		return false, fmt.Errorf("get Lease %s: %w", key, err)
	case l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity == "":
		o.forget(key)
		return false, nil
	default:
		now.holder = *l.Spec.HolderIdentity
		if l.Spec.RenewTime != nil {
			now.renewed = l.Spec.RenewTime.String()
		}
		if l.Spec.LeaseDurationSeconds != nil {
			lasts = time.Duration(*l.Spec.LeaseDurationSeconds) * time.Second
		}
	}
	return o.age(key, now) < lasts, nil
}

func (o *Observer) forget(key client.ObjectKey) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.seen, key)
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
