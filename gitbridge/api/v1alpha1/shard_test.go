package v1alpha1

import (
	"strings"
	"testing"
)

func TestWhichShardAClusterHas(t *testing.T) {
	for label, want := range map[string]string{"": "default", "default": "default", "b": "b", "eu-1": "eu-1", "B": "default", "b-": "default", strings.Repeat("b", 33): "default"} {
		b := &ClusterBinding{}
		if label != "" {
			b.Labels = map[string]string{LabelShard: label}
		}
		if got := b.Shard(); got != want {
			t.Errorf("with the label %q it is %s, want %s", label, got, want)
		}
	}
	if a, b := ShardLease(DefaultShard), ShardLease("b"); a != "gitbind-gitbridge" || b != "gitbind-gitbridge-b" {
		t.Errorf("Leases %s and %s", a, b)
	}
	b := &ClusterBinding{}
	if by := b.FollowedBy(); by != "" {
		t.Errorf("before the first it is followed by %s", by)
	}
	b.Status.Bridge = &BridgeStatus{Epoch: "e"}
	if by := b.FollowedBy(); by != DefaultShard {
		t.Errorf("since before there were shards it is followed by %q", by)
	}
}
