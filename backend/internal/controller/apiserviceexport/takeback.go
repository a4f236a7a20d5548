package apiserviceexport

import (
	"context"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/backend/internal/grant"
	"gitbind.dev/gitbridge/api/v1alpha1"
)

// takeBack takes from the role by which a cluster may bind in Git the templates
// that it has unbound. It never adds one: that is for who binds, and what an
// operator took away stays so.
func (r *Reconciler) takeBack(ctx context.Context, cb *v1alpha1.ClusterBinding, exports []v1alpha1.APIServiceExport) error {
	var role rbacv1.ClusterRole
	err := r.Client.Get(ctx, client.ObjectKey{Name: v1alpha1.TenantBindRole(cb.Name)}, &role)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	has := grant.BindTemplates(role.Rules)
	if len(kept(has, exports)) == len(has) {
		return nil
	}
	// The cache may not know yet of an export that was made a moment ago.
	var live v1alpha1.APIServiceExportList
	if err := r.Live.List(ctx, &live, client.InNamespace(v1alpha1.TenantNamespace(cb.Name))); err != nil {
		return err
	}
	keep := kept(has, live.Items)
	if len(keep) == len(has) {
		return nil
	}
	before := role.DeepCopy()
	role.Rules = grant.BindRules(keep)
	err = r.Client.Patch(ctx, &role, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), fieldOwner)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("patch ClusterRole %s: %w", role.Name, err)
	}
	return nil
}

// kept are the templates of which there is an export.
func kept(templates []string, exports []v1alpha1.APIServiceExport) []string {
	return slices.DeleteFunc(slices.Clone(templates), func(name string) bool {
		return !slices.ContainsFunc(exports, func(e v1alpha1.APIServiceExport) bool { return e.DeletionTimestamp == nil && e.Spec.Template == name })
	})
}
