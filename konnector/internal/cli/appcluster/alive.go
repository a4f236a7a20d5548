package appcluster

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/watch"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// KonnectorLease is the Lease, in SystemNamespace, that the konnector in charge
// renews every two seconds.
const KonnectorLease = "gitbind-konnector"

const (
	// freshLease is how old the Lease of a konnector in charge can be.
	freshLease = 15 * time.Second
	// renewedWithin is how long to look whether it is renewed, where the clocks
	// disagree or the konnector is gone.
	renewedWithin = 5 * time.Second
)

// Absent says that no konnector is in charge. What statuses say is then no newer
// than Since.
type Absent struct {
	Since time.Time
	// Released says that it went in good order.
	Released bool
}

// Say is it in words, for now.
func (a *Absent) Say(now time.Time) string {
	ago := duration.HumanDuration(max(now.Sub(a.Since), 0))
	if a.Released {
		return "konnector stopped " + ago + " ago"
	}
	return "konnector not seen for " + ago
}

// KonnectorAbsent looks whether a konnector is in charge, and gives nil when one
// is, or that cannot be known: there is no Lease, or not for this person to see.
// This machine's clock may be wrong, so a Lease that looks old is watched for a
// moment.
func (c *Cluster) KonnectorAbsent(ctx context.Context, now time.Time) (*Absent, error) {
	key := client.ObjectKey{Namespace: SystemNamespace, Name: KonnectorLease}
	var lease coordinationv1.Lease
	err := c.Get(ctx, key, &lease)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for the konnector: %w", err)
	}
	absent := absentBy(&lease, now)
	if absent == nil || absent.Released {
		return absent, nil
	}
	watching, cancel := context.WithTimeout(ctx, renewedWithin)
	defer cancel()
	gvk := coordinationv1.SchemeGroupVersion.WithKind("Lease")
	_, err = watchtools.UntilWithSync(watching, c.one(gvk, key), &unstructured.Unstructured{}, nil, func(e watch.Event) (bool, error) {
		u, ok := e.Object.(*unstructured.Unstructured)
		return ok && e.Type != watch.Deleted && u.GetResourceVersion() != lease.ResourceVersion, nil
	})
	switch {
	case err == nil:
		return nil, nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("look for the konnector: %w", context.Cause(ctx))
	}
	// Not renewed, or not for this person to watch: then the clock has the word.
	return absent, nil
}

// absentBy judges a Lease by a clock.
func absentBy(lease *coordinationv1.Lease, now time.Time) *Absent {
	if lease.Spec.RenewTime == nil {
		return nil
	}
	renewed := lease.Spec.RenewTime.Time
	released := lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == ""
	if age := now.Sub(renewed); !released && age < freshLease && age > -freshLease {
		return nil
	}
	return &Absent{Since: renewed, Released: released}
}
