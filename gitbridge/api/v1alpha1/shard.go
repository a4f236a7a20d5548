package v1alpha1

import "regexp"

// LabelShard on a ClusterBinding names the shard whose bridge is to follow it; without
// it that is DefaultShard's. An operator moves an app cluster by changing it.
const LabelShard = "gitbind.dev/shard"

// DefaultShard is the shard of what has no label, and of a bridge that is told none.
const DefaultShard = "default"

// ValidShard reports whether a name can be a shard's. It is a part of the names of a
// Lease and a Deployment.
func ValidShard(name string) bool { return shardName.MatchString(name) }

var shardName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?$`)

// ShardLease is the name of the Lease, in the system namespace, of those bridges that
// share a shard: the one that holds it works.
func ShardLease(shard string) string {
	if shard == DefaultShard {
		return "gitbind-gitbridge"
	}
	return "gitbind-gitbridge-" + shard
}

// Shard is the one that is to follow the app cluster. A label that no shard can have is
// refused by an admission policy; without that, it is as if it was not there.
func (b *ClusterBinding) Shard() string {
	if shard := b.Labels[LabelShard]; ValidShard(shard) {
		return shard
	}
	return DefaultShard
}

// FollowedBy is the shard that follows the app cluster, or did last; "" before the
// first. It is another one than Shard while the cluster is handed over.
func (b *ClusterBinding) FollowedBy() string {
	switch s := b.Status.Bridge; {
	case s == nil:
		return ""
	case s.Shard == "":
		// It was written before there were shards.
		return DefaultShard
	default:
		return s.Shard
	}
}
