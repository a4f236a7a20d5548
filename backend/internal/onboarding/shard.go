package onboarding

import (
	"context"
	"fmt"
	"slices"

	"gitbind.dev/gitbridge/api/v1alpha1"
)

// shard gives the label by which a new cluster is followed by the shard that has fewest.
// It is nil for the default one.
func (s *Service) shard(ctx context.Context) (map[string]string, error) {
	if len(s.Shards) == 0 {
		return nil, nil
	}
	var list v1alpha1.ClusterBindingList
	if err := s.Client.List(ctx, &list); err != nil {
		return nil, trouble(fmt.Errorf("list ClusterBindings: %w", err))
	}
	shard := fewest(s.Shards, list.Items, s.IsShardFree)
	if shard == v1alpha1.DefaultShard {
		return nil, nil
	}
	return map[string]string{v1alpha1.LabelShard: shard}, nil
}

// fewest is the shard that has the fewest clusters, the first one of those. One of which no
// bridge runs gets none, unless that is so of all.
func fewest(shards []string, all []v1alpha1.ClusterBinding, isFree func(shard string) bool) string {
	if run := slices.DeleteFunc(slices.Clone(shards), isFree); len(run) > 0 {
		shards = run
	}
	has := map[string]int{}
	for i := range all {
		has[all[i].Shard()]++
	}
	least := shards[0]
	for _, shard := range shards {
		if has[shard] < has[least] {
			least = shard
		}
	}
	return least
}
