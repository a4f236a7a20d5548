package shard

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/test/fakeapi"
)

// watched are the members of shard b, and what a bridge is told of ClusterBindings.
func watched(t *testing.T, joined func(cluster string)) (*Members, *controllertest.FakeInformer) {
	t.Helper()
	all := &informertest.FakeInformers{Scheme: fakeapi.Scheme()}
	m, err := Watch(t.Context(), all, "b", joined)
	if err != nil {
		t.Fatal(err)
	}
	events, err := all.FakeInformerFor(t.Context(), &v1alpha1.ClusterBinding{})
	if err != nil {
		t.Fatal(err)
	}
	return m, events
}

func labelled(shard string) *v1alpha1.ClusterBinding {
	return &v1alpha1.ClusterBinding{ObjectMeta: metav1.ObjectMeta{Name: "moves", Labels: map[string]string{v1alpha1.LabelShard: shard}}}
}

// A bridge without other shards would list all its kinds again for each cluster that is
// deleted, and would not see any more that what the cluster left is deleted.
func TestAClusterThatIsDeletedDoesNotLeaveItsShard(t *testing.T) {
	m, events := watched(t, func(string) {})
	b := labelled("b")
	events.Add(b)
	events.Delete(b)
	if _, left := m.Moment(); !m.Has("moves") || left != 0 {
		t.Errorf("it is a member: %t; somebody left at %d", m.Has("moves"), left)
	}
	// One of the same name belongs to another shard.
	events.Add(labelled("a"))
	if m.Has("moves") {
		t.Error("it is still a member")
	}
}

// Its label goes there and back before anybody looks: what changed meanwhile was dropped,
// and nobody else would say that all is to be looked at again.
func TestItIsToldEachTimeThatAClusterJoins(t *testing.T) {
	told := 0
	var m *Members
	var events *controllertest.FakeInformer
	m, events = watched(t, func(cluster string) {
		if told++; cluster != "moves" || !m.Has(cluster) {
			t.Errorf("%s is told, and is no member", cluster)
		}
	})
	b, a := labelled("b"), labelled("a")
	events.Add(b)
	events.Update(b, b)
	events.Update(b, a)
	events.Update(a, a)
	events.Update(a, b)
	if told != 2 {
		t.Errorf("it is told %d times, want 2", told)
	}
}

// Until it is handed over, it is still followed here.
func TestAClusterIsAMemberWhileItsBridgeFollowsIt(t *testing.T) {
	m, events := watched(t, func(string) {})
	b := labelled("b")
	followed := labelled("a")
	followed.Status.Bridge = &v1alpha1.BridgeStatus{Shard: "b"}
	events.Add(b)
	events.Update(b, followed)
	if _, left := m.Moment(); !m.Has("moves") || left != 0 {
		t.Errorf("it is a member: %t; somebody left at %d", m.Has("moves"), left)
	}
	handed := labelled("a")
	handed.Status.Bridge = &v1alpha1.BridgeStatus{Shard: "a"}
	events.Update(followed, handed)
	if _, left := m.Moment(); m.Has("moves") || left == 0 {
		t.Errorf("it is a member after it was handed over: %t; somebody left at %d", m.Has("moves"), left)
	}
}
