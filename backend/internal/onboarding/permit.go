package onboarding

import (
	"context"
	"fmt"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/backend/internal/grant"
	"gitbind.dev/gitbridge/api/v1alpha1"
)

// boundAt is an annotation of the role: when a person bound last.
const boundAt = "gitbind.dev/bound-at"

// permit lets a cluster's own ServiceAccount bind a template: what a person bound
// for it may from then on be bound in Git, too, and counts there for what that
// account may and not for what the person might some day. It goes with the
// ClusterBinding; the controller of exports takes it back after an unbind, and
// operators whenever they like, by removing the binding of the role.
func (s *Service) permit(ctx context.Context, cb *v1alpha1.ClusterBinding, template string) error {
	// Two at a time would not know of each other's binding of the role.
	s.permitting.Lock()
	defer s.permitting.Unlock()
	meta := metav1.ObjectMeta{
		Name:            v1alpha1.TenantBindRole(cb.Name),
		Labels:          map[string]string{v1alpha1.LabelCluster: cb.Name},
		OwnerReferences: v1alpha1.ClusterOwners(cb.Name, cb.UID, new(true)),
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: cb.Status.TenantNamespace, Name: v1alpha1.TenantServiceAccount}},
	}
	var found rbacv1.ClusterRoleBinding
	err := s.Live.Get(ctx, client.ObjectKey{Name: meta.Name}, &found)
	isBound := err == nil
	switch {
	case client.IgnoreNotFound(err) != nil:
		return trouble(fmt.Errorf("get ClusterRoleBinding: %w", err))
	case isBound && !metav1.IsControlledBy(&found, cb):
		return errLeaving(cb)
	}
	err = decideAgain(func() error { return s.addToRole(ctx, cb, meta, isBound, template) })
	if err != nil || isBound {
		return err
	}
	if err := s.Client.Create(ctx, binding, fieldOwner); err != nil && !apierrors.IsAlreadyExists(err) {
		return trouble(fmt.Errorf("create ClusterRoleBinding: %w", err))
	}
	return nil
}

// addToRole adds a template to the role. What is in a role that nobody is bound
// to was taken back by an operator, and does not come back with it.
func (s *Service) addToRole(ctx context.Context, cb *v1alpha1.ClusterBinding, meta metav1.ObjectMeta, isBound bool, template string) error {
	role := &rbacv1.ClusterRole{}
	err := s.Live.Get(ctx, client.ObjectKey{Name: meta.Name}, role)
	if apierrors.IsNotFound(err) {
		role = &rbacv1.ClusterRole{ObjectMeta: meta, Rules: grant.BindRules([]string{template})}
		if err := s.Client.Create(ctx, role, fieldOwner); err != nil {
			return trouble(fmt.Errorf("create ClusterRole: %w", err))
		}
		return nil
	}
	switch {
	case err != nil:
		return trouble(fmt.Errorf("get ClusterRole: %w", err))
	case !metav1.IsControlledBy(role, cb):
		return errLeaving(cb)
	}
	before := role.DeepCopy()
	templates := []string{template}
	if isBound {
		templates = append(templates, grant.BindTemplates(role.Rules)...)
	}
	role.Rules = grant.BindRules(templates)
	if role.Annotations == nil {
		role.Annotations = map[string]string{}
	}
	// Who takes back what was unbound before must see that it is bound again, also
	// where the rules are the same.
	role.Annotations[boundAt] = s.Now().UTC().Format(time.RFC3339Nano)
	return s.patchAsRead(ctx, before, role)
}
