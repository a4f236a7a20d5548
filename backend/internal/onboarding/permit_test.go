package onboarding

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"gitbind.dev/backend/internal/grant"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/test/fakeapi"
)

// Who read the role before a template was bound again must not take it back by
// what it read.
func TestBindingAgainChangesTheRole(t *testing.T) {
	conflicts := 0
	api := fakeapi.New(fakeapi.Builder(), interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if conflicts > 0 {
				conflicts--
				return apierrors.NewConflict(rbacv1.Resource("clusterroles"), o.GetName(), nil)
			}
			return c.Patch(ctx, o, p, opts...)
		},
	})
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	s := &Service{Client: api, Live: api, Now: func() time.Time { now = now.Add(time.Millisecond); return now }}
	cb := &v1alpha1.ClusterBinding{ObjectMeta: metav1.ObjectMeta{Name: "k3x9d2abqw", UID: "u1"}, Status: v1alpha1.ClusterBindingStatus{TenantNamespace: "gb-k3x9d2abqw"}}
	permit := func() *rbacv1.ClusterRole {
		t.Helper()
		if err := s.permit(t.Context(), cb, "pg"); err != nil {
			t.Fatal(err)
		}
		var role rbacv1.ClusterRole
		if err := api.Get(t.Context(), client.ObjectKey{Name: v1alpha1.TenantBindRole(cb.Name)}, &role); err != nil {
			t.Fatal(err)
		}
		if got := grant.BindTemplates(role.Rules); len(got) != 1 || got[0] != "pg" {
			t.Fatalf("it may bind %v", got)
		}
		return &role
	}
	permit()
	first := permit()
	conflicts = 2
	if second := permit(); second.Annotations[boundAt] == first.Annotations[boundAt] || second.ResourceVersion == first.ResourceVersion {
		t.Errorf("nothing changed: %v", second.ObjectMeta)
	}
}

// Of two who bind at the same time, none takes from the role what the other added.
func TestBindingAddsToWhatWasBoundMeanwhile(t *testing.T) {
	w := newWorld(t, v1alpha1.ClusterBindingSpec{})
	cb := w.cluster()
	role := func() *rbacv1.ClusterRole {
		t.Helper()
		var role rbacv1.ClusterRole
		if err := w.api.Get(t.Context(), client.ObjectKey{Name: v1alpha1.TenantBindRole(cb.Name)}, &role); err != nil {
			t.Fatal(err)
		}
		return &role
	}
	permit := func(template string) {
		t.Helper()
		if err := w.permit(t.Context(), cb, template); err != nil {
			t.Fatal(err)
		}
	}
	permit("pg")
	w.before = func() {
		r := role()
		r.Rules = grant.BindRules([]string{"pg", "rabbitmq"})
		if err := w.api.Update(t.Context(), r); err != nil {
			t.Error(err)
		}
	}
	permit("redis")
	if diff := cmp.Diff([]string{"pg", "rabbitmq", "redis"}, grant.BindTemplates(role().Rules)); diff != "" {
		t.Error(diff)
	}
}
