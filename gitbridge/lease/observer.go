package lease

import (
	"cmp"
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
	// Options are this process' own. Others are taken to have the same ones; without them,
	// the defaults.
	Options Options

	mu   sync.Mutex
	seen map[client.ObjectKey]observation
}

// observation is a Lease as it was read last.
type observation struct {
	// holder is "" for a Lease that is not there, and for one that is free.
	holder, renewed string
	isFree          bool
	lasts           time.Duration
	// since is when it was first read as it is, and at when it was read last.
	since, at time.Time
	// isRenewed is whether it was seen that somebody took or renewed it.
	isRenewed bool
}

// isHeld reports whether somebody may hold it. More is for how much longer than it lasts
// it counts as held.
func (n observation) isHeld(now time.Time, more time.Duration) bool {
	return !n.isFree && now.Sub(n.since) < n.lasts+more
}

// nobody is in the place of a holder whom a Lease was taken away from. It is not empty:
// a process that finds its Lease without a holder takes it again, and goes on.
const nobody = "nobody: it was not renewed, and its work was taken over"

// readInterval is for how long what was read of a Lease answers for all who ask.
const readInterval = time.Second

// Held reports whether somebody may hold a Lease, and work. One that was released is
// held by nobody. One that is not there may be about to be made, or its process may do
// without: it counts as held for as long as others last.
func (o *Observer) Held(ctx context.Context, namespace, name string) (bool, error) {
	held, _, err := o.State(ctx, namespace, name)
	return held, err
}

// State is Held, and whether there is a Lease, which somebody holds or held.
func (o *Observer) State(ctx context.Context, namespace, name string) (held, exists bool, err error) {
	n, err := o.recent(ctx, client.ObjectKey{Namespace: namespace, Name: name})
	return n.isHeld(o.Now(), 0), n.isFree || n.holder != "", err
}

// Runs reports whether somebody was seen to take or renew a Lease, and holds it still.
func (o *Observer) Runs(ctx context.Context, namespace, name string) (bool, error) {
	n, err := o.recent(ctx, client.ObjectKey{Namespace: namespace, Name: name})
	return n.isRenewed && n.isHeld(o.Now(), 0), err
}

// recent is what was read of a Lease a moment ago.
func (o *Observer) recent(ctx context.Context, key client.ObjectKey) (observation, error) {
	o.mu.Lock()
	n, ok := o.seen[key]
	o.mu.Unlock()
	if ok && o.Now().Sub(n.at) < readInterval {
		return n, nil
	}
	_, n, err := o.look(ctx, key)
	return n, err
}

// standbyTime is how long those who stand by have to take a Lease that ran out, before it
// is taken away for good: longer than the time between two of their looks.
func (o *Observer) standbyTime() time.Duration { return max(5*time.Second, 3*o.Options.Retry) }

// Free sees to it that nobody holds a Lease, and reports whether that is so: one that was
// not renewed for as long as it lasts, and that nobody took then, is taken away. A process
// that hung, and goes on, cannot renew it then, and ends; until it has, its Guard lets
// nothing pass.
func (o *Observer) Free(ctx context.Context, w client.Writer, namespace, name string) (bool, error) {
	key := client.ObjectKey{Namespace: namespace, Name: name}
	l, n, err := o.look(ctx, key)
	if err != nil || n.isHeld(o.Now(), o.standbyTime()) {
		return false, err
	}
	if n.isFree {
		return true, nil
	}
	l.Namespace, l.Name = namespace, name
	l.Spec.HolderIdentity, l.Spec.RenewTime = new(nobody), new(metav1.NewMicroTime(o.Now()))
	if l.ResourceVersion == "" {
		l.Spec.LeaseDurationSeconds = new(int32(n.lasts / time.Second))
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
	o.note(key, observation{isFree: true})
	return true, nil
}

// look reads a Lease; it is empty where there is none.
func (o *Observer) look(ctx context.Context, key client.ObjectKey) (*coordinationv1.Lease, observation, error) {
	l, n := &coordinationv1.Lease{}, observation{lasts: cmp.Or(o.Options.Duration, Default().Duration)}
	err := o.Server.Get(ctx, key, l)
	if client.IgnoreNotFound(err) != nil {
		return nil, observation{}, fmt.Errorf("get Lease %s: %w", key, err)
	}
	if err == nil {
		if n.holder = holderOf(l); n.holder == "" || n.holder == nobody {
			n.holder, n.isFree = "", true
		}
		if l.Spec.RenewTime != nil {
			n.renewed = l.Spec.RenewTime.String()
		}
		if l.Spec.LeaseDurationSeconds != nil {
			n.lasts = time.Duration(*l.Spec.LeaseDurationSeconds) * time.Second
		}
	}
	return l, o.note(key, n), nil
}

func holderOf(l *coordinationv1.Lease) string {
	if l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}

// note keeps what was read of a Lease, and adds what is known from before.
func (o *Observer) note(key client.ObjectKey, n observation) observation {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.seen == nil {
		o.seen = map[client.ObjectKey]observation{}
	}
	n.since, n.at = o.Now(), o.Now()
	// What was long ago says nothing: meanwhile, much may have come and gone.
	if before, ok := o.seen[key]; ok && n.at.Sub(before.at) <= max(before.lasts, Default().Duration) {
		if before.holder == n.holder && before.renewed == n.renewed && before.isFree == n.isFree {
			n.since, n.isRenewed = before.since, before.isRenewed
		} else {
			n.isRenewed = n.holder != ""
		}
	}
	o.seen[key] = n
	return n
}
