package claim

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"gitbind.dev/test/fakeapi"
)

func TestWhatAnObjectEndsWith(t *testing.T) {
	second := func(n int) metav1.Time { return metav1.Unix(int64(1_000_000+n), 0) }
	for _, tc := range []struct {
		name             string
		created, deleted int
		// born is when the namespace was created; 0 for none.
		born       int
		ends, gone bool
	}{
		{name: "deleted by a person", born: 1, created: 2, deleted: 3},
		{name: "all in one second", born: 1, created: 1, deleted: 1},
		{name: "the namespace is gone", created: 2, deleted: 3, ends: true, gone: true},
		{name: "the namespace is another one", created: 2, deleted: 3, born: 4, ends: true},
		{name: "another one, in the second of the delete", created: 2, deleted: 3, born: 3, ends: true},
		{name: "left behind, and deleted by a person in another one", created: 2, deleted: 4, born: 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			server := fakeapi.Builder()
			if tc.born > 0 {
				server.WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-a", CreationTimestamp: second(tc.born)}})
			}
			o := &unstructured.Unstructured{}
			o.SetCreationTimestamp(second(tc.created))
			deleted := second(tc.deleted)
			o.SetDeletionTimestamp(&deleted)
			in := input{Reader: fakeapi.New(server)}
			ends, gone, err := endsWith(t.Context(), in, o, "team-a", &corev1.Namespace{})
			if err != nil || ends != tc.ends || gone != tc.gone {
				t.Errorf("ends %t, gone %t, error %v", ends, gone, err)
			}
			// A cache that has none may be behind.
			in.cached = true
			ends, _, err = endsWith(t.Context(), in, o, "team-a", &corev1.Namespace{})
			if errors.Is(err, errIncomplete) != tc.gone || !tc.gone && ends != tc.ends {
				t.Errorf("by the cache it ends %t, error %v", ends, err)
			}
		})
	}
}

func TestANamespaceThatIsGoneIsNoChangeOfTheObject(t *testing.T) {
	var refusal *refusedError
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "team-a")
	if err := moved(gone); !errors.As(err, &refusal) || !refusal.noNamespace {
		t.Errorf("a namespace that is gone: %v", err)
	}
	object := apierrors.NewNotFound(schema.GroupResource{Group: "anynines.com", Resource: "postgresqlinstances"}, "orders")
	if err := moved(object); !errors.Is(err, errMoved) {
		t.Errorf("an object that is gone: %v", err)
	}
	if err := moved(errors.ErrUnsupported); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("another error: %v", err)
	}
}
