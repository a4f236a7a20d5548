package clusterbinding

import (
	"context"
	"errors"
	"fmt"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
)

// Leases are those of other processes.
type Leases interface {
	// Held reports whether somebody may hold a Lease, as it was a moment ago.
	Held(ctx context.Context, namespace, name string) (bool, error)
	// Runs reports whether somebody was seen to take or renew a Lease, and holds it.
	Runs(ctx context.Context, namespace, name string) (bool, error)
	// Free sees to it that nobody holds a Lease, and that who held it cannot go on with
	// it. It reports false as long as somebody may hold it.
	Free(ctx context.Context, w client.Writer, namespace, name string) (bool, error)
}

// stillFollows reports whether an app cluster that is to be another shard's is followed here still:
// until a bridge of that one runs, as its name may be misspelt.
func (r *Reconciler) stillFollows(ctx context.Context, b *v1alpha1.ClusterBinding) (bool, error) {
	if b.FollowedBy() != r.Shard {
		return false, nil
	}
	runs, err := r.Leases.Runs(ctx, v1alpha1.SystemNamespace, v1alpha1.ShardLease(b.Shard()))
	if err != nil {
		return false, fmt.Errorf("hand over to shard %s: %w", b.Shard(), err)
	}
	return !runs, nil
}

// handOver ends the following of an app cluster that belongs to another shard by now, and
// then lets that one begin.
func (r *Reconciler) handOver(ctx context.Context, b *v1alpha1.ClusterBinding) error {
	if b.FollowedBy() != r.Shard {
		// All clusters of all other shards come here: most were never followed.
		r.stop(b.Name)
		return nil
	}
	r.end(b.Name)
	var live v1alpha1.ClusterBinding
	if err := r.Server.Get(ctx, client.ObjectKeyFromObject(b), &live); err != nil {
		return client.IgnoreNotFound(err)
	}
	to := live.Shard()
	if live.FollowedBy() != r.Shard || to == r.Shard {
		return nil
	}
	if err := r.writeFollower(ctx, &live, to); err != nil {
		return fmt.Errorf("hand over to shard %s: %w", to, err)
	}
	ctrl.LoggerFrom(ctx).Info("Handed over", "cluster", b.Name, "to", to)
	return nil
}

var (
	// errNotHandedOver says that the shard that followed an app cluster may still write for
	// it.
	errNotHandedOver = errors.New("another shard still follows the app cluster")
	// errMoved says that an app cluster is another one, or another shard's, than was read.
	errMoved = errors.New("the app cluster was moved or replaced")
)

// handOverInterval is between two looks whether a cluster was handed over. Its
// ClusterBinding tells that; that the other shard's Lease ran out, nothing does.
const handOverInterval = time.Second

// takeOver has an app cluster followed by this shard, and returns its ClusterBinding as it is
// then. From then on, no other bridge writes for it: the one of the shard before has written
// that it stopped, or has lost its Lease, without which it writes nothing and ends.
// Within a shard the Lease alone decides.
func (r *Reconciler) takeOver(ctx context.Context, b *v1alpha1.ClusterBinding) (*v1alpha1.ClusterBinding, error) {
	if by := b.FollowedBy(); by != "" && by != r.Shard {
		// Many may wait for that shard: they ask the API server for no more than its Lease.
		switch held, err := r.Leases.Held(ctx, v1alpha1.SystemNamespace, v1alpha1.ShardLease(by)); {
		case err != nil:
			return nil, fmt.Errorf("take over from shard %s: %w", by, err)
		case held:
			return nil, errNotHandedOver
		}
	}
	var live v1alpha1.ClusterBinding
	if err := r.Server.Get(ctx, client.ObjectKeyFromObject(b), &live); err != nil {
		return nil, fmt.Errorf("get ClusterBinding: %w", err)
	}
	by := live.FollowedBy()
	switch {
	case live.UID != b.UID, live.Shard() != b.Shard(), live.Shard() != r.Shard && by != r.Shard:
		return nil, errMoved
	case by == "", by == r.Shard:
	default:
		// The binding was read before: who takes that Lease later sees that it is not theirs.
		free, err := r.Leases.Free(ctx, r.Client, v1alpha1.SystemNamespace, v1alpha1.ShardLease(by))
		if err != nil {
			return nil, fmt.Errorf("take over from shard %s: %w", by, err)
		}
		if !free {
			ctrl.LoggerFrom(ctx).V(1).Info("Waiting to be handed over", "cluster", b.Name, "from", by)
			return nil, errNotHandedOver
		}
		ctrl.LoggerFrom(ctx).Info("Taking over, as no bridge of its shard runs", "cluster", b.Name, "from", by)
	}
	if live.Status.Bridge != nil && live.Status.Bridge.Shard == r.Shard {
		return &live, nil
	}
	if err := r.writeFollower(ctx, &live, r.Shard); err != nil {
		return nil, fmt.Errorf("take: %w", err)
	}
	// Reading into what is filled would keep labels that were removed.
	var written v1alpha1.ClusterBinding
	if err := r.Server.Get(ctx, client.ObjectKeyFromObject(b), &written); err != nil {
		return nil, fmt.Errorf("get ClusterBinding: %w", err)
	}
	return &written, nil
}

// writeFollower writes which shard is to follow an app cluster, on exactly what was read,
// and nothing else.
func (r *Reconciler) writeFollower(ctx context.Context, b *v1alpha1.ClusterBinding, shard string) error {
	s := newStatus(r.Client, r.Server, b, shard)
	return part.Write(ctx, r.Client, b, s.want(b, s.checkpoint, s.said))
}
