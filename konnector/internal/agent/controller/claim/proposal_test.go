package claim

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/test/fakeapi"
)

// A namespace and a claim in it are often applied together, and the cache may know of the
// claim first.
func TestANamespaceThatTheCacheDoesNotKnowYetMayAskForReviews(t *testing.T) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{v1alpha1.ChangesLabel: "PullRequest"}}}
	r := &reconciler{cached: fakeapi.New(fakeapi.Builder()), live: fakeapi.New(fakeapi.Builder().WithObjects(namespace))}
	r.current.Store(&API{})
	l := &look{key: contract.Key{Binding: "dbs.example.com", Namespace: "shop", Name: "orders"}, object: &unstructured.Unstructured{Object: map[string]any{}}}
	if err := r.lookAtReview(t.Context(), l); err != nil || !l.facts.Review {
		t.Errorf("reviewed: %v, %v", l.facts.Review, err)
	}
}
