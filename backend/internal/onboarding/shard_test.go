package onboarding

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gitbind.dev/gitbridge/api/v1alpha1"
)

func TestANewClusterGetsTheShardWithFewest(t *testing.T) {
	var all []v1alpha1.ClusterBinding
	for _, shard := range []string{"", "", "b", "b", "b", "c"} {
		labels := map[string]string{v1alpha1.LabelShard: shard}
		if shard == "" {
			labels = nil
		}
		all = append(all, v1alpha1.ClusterBinding{ObjectMeta: metav1.ObjectMeta{Labels: labels}})
	}
	isFree := func(shard string) bool { return shard == "dead" || shard == "ended" }
	for want, shards := range map[string][]string{
		"default": {"b", "default"}, "c": {"default", "b", "c"}, "new": {"b", "new", "newer"}, "b": {"dead", "b"}, "ended": {"ended", "dead"},
	} {
		if got := fewest(shards, all, isFree); got != want {
			t.Errorf("of %v it gets %s, want %s", shards, got, want)
		}
	}
}
