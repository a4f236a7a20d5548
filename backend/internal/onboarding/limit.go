package onboarding

import (
	"gitbind.dev/backend/internal/refusal"
	"gitbind.dev/gitbridge/api/v1alpha1"
)

// mayOwnMore refuses one cluster more than an owner may have.
func (s *Service) mayOwnMore(own []v1alpha1.ClusterBinding) error {
	if s.MaxClusters == 0 || len(own) < s.MaxClusters {
		return nil
	}
	return refusal.New(refusal.Forbidden, "you have %d clusters, and may have %d: %s. A platform operator removes one that is not needed (kubectl delete clusterbinding ID), or allows more (--max-clusters of the backend); a cluster that was rebuilt takes the place of the old one with --reclaim",
		len(own), s.MaxClusters, listed(own))
}
