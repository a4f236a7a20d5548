package shard

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"

	"gitbind.dev/gitbridge/api/v1alpha1"
)

// A bridge without other shards would list all its kinds again for each cluster that is
// deleted, and would not see any more that what the cluster left is deleted.
func TestAClusterThatIsDeletedDoesNotLeaveItsShard(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	all := &informertest.FakeInformers{Scheme: scheme}
	m, err := Watch(t.Context(), all, "b")
	if err != nil {
		t.Fatal(err)
	}
	events, err := all.FakeInformerFor(t.Context(), &v1alpha1.ClusterBinding{})
	if err != nil {
		t.Fatal(err)
	}
	b := &v1alpha1.ClusterBinding{ObjectMeta: metav1.ObjectMeta{Name: "moves", Labels: map[string]string{v1alpha1.LabelShard: "b"}}}
	events.Add(b)
	events.Delete(b)
	if _, left := m.Moment(); !m.Has("moves") || left != 0 {
		t.Errorf("it is a member: %t; somebody left at %d", m.Has("moves"), left)
	}
	// One of the same name belongs to another shard.
	events.Add(&v1alpha1.ClusterBinding{ObjectMeta: metav1.ObjectMeta{Name: "moves"}})
	if m.Has("moves") {
		t.Error("it is still a member")
	}
}
