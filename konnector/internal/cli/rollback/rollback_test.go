package rollback

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/test/fakeapi"
)

// A person takes time to look, and the provider writes the status meanwhile.
func TestOnlyAnEditKeepsAClaimFromBeingRolledBack(t *testing.T) {
	t.Parallel()
	archive := schema.GroupVersionKind{Group: "example.net", Version: "v1", Kind: "Archive"}
	for _, c := range []struct {
		what      string
		meanwhile func(*unstructured.Unstructured)
		edited    bool
	}{
		{"nothing", nil, false},
		{"a status", func(u *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(u.Object, "True", "status", "ready")
		}, false},
		{"a spec", func(u *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(u.Object, "huge", "spec", "plan")
		}, true},
		{"a label", func(u *unstructured.Unstructured) { u.SetLabels(map[string]string{"team": "a"}) }, true},
		{"an annotation", func(u *unstructured.Unstructured) { u.SetAnnotations(map[string]string{"a": "b"}) }, true},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			live := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"plan": "big"}}}
			live.SetGroupVersionKind(archive)
			live.SetNamespace("team-a")
			live.SetName("orders")
			written := false
			api := fakeapi.New(fakeapi.Builder().WithScheme(runtime.NewScheme()).WithObjects(live).WithStatusSubresource(live), interceptor.Funcs{
				Update: func(ctx context.Context, w client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
					if !written && c.meanwhile != nil {
						written = true
						now := live.DeepCopy()
						c.meanwhile(now)
						update := w.Update(ctx, now)
						if c.what == "a status" {
							update = w.Status().Update(ctx, now)
						}
						if update != nil {
							return update
						}
					}
					return w.Update(ctx, o, opts...)
				},
			})
			if err := api.Get(t.Context(), client.ObjectKeyFromObject(live), live); err != nil {
				t.Fatal(err)
			}
			want := live.DeepCopy()
			_ = unstructured.SetNestedField(want.Object, "small", "spec", "plan")
			var in Input
			in.Cluster = &appcluster.Cluster{WithWatch: api}
			p := plan{live: live, want: contract.FromObject(want)}
			p.name = appcluster.ClaimName{Kind: archive, Key: contract.Key{Binding: "archives.example.net", Namespace: "team-a", Name: "orders"}}
			_, err := in.write(t.Context(), p)
			if (err != nil) != c.edited || apierrors.IsConflict(err) {
				t.Errorf("got %v", err)
			}
			now, err := in.Cluster.Object(t.Context(), p.name)
			if err != nil {
				t.Fatal(err)
			}
			if plan, _, _ := unstructured.NestedString(now.Object, "spec", "plan"); (plan == "small") == c.edited {
				t.Errorf("the plan is %s", plan)
			}
		})
	}
}
