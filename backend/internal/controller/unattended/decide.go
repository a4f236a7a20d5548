package unattended

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gitbind.dev/gitbridge/api/v1alpha1"
)

const (
	// standbyTimeout is how long a Lease may be free: a bridge that stands by takes it
	// sooner, and so does one that is started again.
	standbyTimeout = 15 * time.Second
	// handOverTimeout is how long a cluster may wait to be handed over.
	handOverTimeout = time.Minute
)

const notHandedOver = "NotHandedOver"

// facts are what is known of one cluster.
type facts struct {
	now time.Time
	// shard is to follow it, and by does, or did last; "" before the first.
	shard, by string
	// free is since when nobody holds the shard's Lease, which is for long enough to say
	// so, and waiting since when shard and by are two; zero for what is not so.
	free, waiting time.Time
}

// decide says why nobody follows a cluster; nil if somebody does, or may soon.
func decide(cluster string, f facts) *metav1.Condition {
	c := &metav1.Condition{Type: v1alpha1.ConditionUnattended, Status: metav1.ConditionTrue}
	switch {
	case !f.free.IsZero():
		until := "what is ordered and changed waits in Git"
		if f.by != "" && f.by != f.shard {
			until = "until one does, only a bridge of shard " + f.by + " follows the cluster, if one runs"
		}
		c.Reason = "NoBridge"
		c.Message = fmt.Sprintf("no bridge of shard %s runs, as nobody holds the Lease %s/%s: %s. Run one, or have the cluster followed by another shard: kubectl label clusterbindings.gitbind.dev %s %s=NAME --overwrite",
			f.shard, v1alpha1.SystemNamespace, v1alpha1.ShardLease(f.shard), until, cluster, v1alpha1.LabelShard)
	case !f.waiting.IsZero() && f.now.Sub(f.waiting) >= handOverTimeout:
		c.Reason = notHandedOver
		c.Message = fmt.Sprintf("shard %s still has the cluster, and its bridge does not hand it over to shard %s: its log says why. When that bridge is ended, shard %s takes over", f.by, f.shard, f.shard)
	default:
		return nil
	}
	return c
}
