package onboarding

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"gitbind.dev/backend/internal/refusal"
	"gitbind.dev/gitbridge/api/v1alpha1"
)

// unseen is how long a konnector must have kept away for its cluster to count as
// lost: a few times as long as the longest that one keeps quiet.
const unseen = 5 * time.Minute

// reclaim gives the place of a cluster that was lost to the one that was
// rebuilt: id, repository and services stay, and the credential that is issued
// afterwards ends the old one. Whose it is follows from the ID token; which one
// is meant must be said, as nothing else tells a cluster that was rebuilt from
// one more.
func (s *Service) reclaim(ctx context.Context, own []v1alpha1.ClusterBinding, in connectInput) (*v1alpha1.ClusterBinding, error) {
	cb, err := named(own, in.reclaim)
	if err != nil {
		return nil, err
	}
	if cb.DeletionTimestamp != nil {
		return nil, errLeaving(cb)
	}
	if cb.Spec.ClusterUID == in.clusterUID {
		// Done before, and the answer did not arrive; or it is the one of two live
		// copies that is to go on.
		return cb, nil
	}
	if err := hasNone(own, in.clusterUID); err != nil {
		return nil, err
	}
	seen, was := s.lastSeen(cb), "was here"
	if s.Began.After(seen) && meta.IsStatusConditionTrue(cb.Status.Conditions, v1alpha1.ConditionConnected) {
		// No absence is known of in which this process was absent itself.
		seen, was = s.Began, "kept in touch until the backend began"
	}
	if ago := s.Now().Sub(seen); ago < unseen && !in.force {
		return nil, refusal.New(refusal.Conflict, "the konnector of cluster %s (%s) %s %s ago: it would lose its repository to this cluster. If that is wanted, stop it and try again %s after that, or use --force",
			cb.Name, cb.Spec.DisplayName, was, ago.Round(time.Second), unseen)
	}
	before := cb.DeepCopy()
	cb.Spec.ClusterUID = in.clusterUID
	if err := s.patchSpec(ctx, before, cb); err != nil {
		return nil, err
	}
	s.Log.InfoContext(ctx, "Reclaimed", "cluster", cb.Name, "from", before.Spec.ClusterUID, "by", in.clusterUID)
	return cb, nil
}
