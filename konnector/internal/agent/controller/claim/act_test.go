package claim

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"gitbind.dev/konnector/internal/base"
	"gitbind.dev/test/fakeapi"
)

// An API server that goes by the old definition drops a field which only the new
// one has. The field is in Git, and must not be taken for one that somebody removed.
func TestWhatIsNotServedYetIsWrittenAgain(t *testing.T) {
	drop := func(u *unstructured.Unstructured) { unstructured.RemoveNestedField(u.Object, "spec", "plan") }
	change := func(u *unstructured.Unstructured) { _ = unstructured.SetNestedField(u.Object, "other", "spec", "plan") }
	for _, tc := range []struct {
		name   string
		server func(*unstructured.Unstructured)
		age    time.Duration
		again  bool
	}{
		{"a field is dropped just after the definition changed", drop, 0, true},
		{"a field is dropped by who always does", drop, time.Hour, false},
		{"a field is changed by a webhook", change, 0, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := inStep()
			l.facts.File = version("big")
			server := fakeapi.New(fakeapi.Builder().WithScheme(runtime.NewScheme()).WithObjects(l.object), interceptor.Funcs{
				Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
					tc.server(o.(*unstructured.Unstructured))
					return c.Update(ctx, o, opts...)
				},
			})
			r := &reconciler{live: server, client: newNotingClient(server, &written{}), common: &common{bytes: newByteBudget()}}
			api := testAPI(t)
			api.since = time.Now().Add(-tc.age)
			r.current.Store(&api)
			l.api = &api

			var err error
			if l.object, err = r.get(t.Context(), l.key); err != nil {
				t.Fatal(err)
			}
			_, err = r.update(t.Context(), l, l.facts.File, base.Base{UID: "u1", Commit: "c2", Blob: "b2", Generation: 3, Claim: l.facts.File})
			if errors.Is(err, errUnserved) != tc.again || err != nil && !tc.again {
				t.Errorf("error %v", err)
			}
			u, err := r.get(t.Context(), l.key)
			if err != nil {
				t.Fatal(err)
			}
			if b := base.Read(u); b == nil || (b.Blob == "") != tc.again {
				t.Errorf("the base is %+v", b)
			}
		})
	}
}
