package clusterbinding

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/backend/internal/credential"
	"gitbind.dev/gitbridge/api/v1alpha1"
)

// What a cluster has on the control plane, as functions of its ClusterBinding. Everything below the tenant namespace goes when that goes,
// and that goes with the ClusterBinding.

func namespace(cb *v1alpha1.ClusterBinding) *corev1ac.NamespaceApplyConfiguration {
	return corev1ac.Namespace(v1alpha1.TenantNamespace(cb.Name)).
		WithLabels(labels(cb)).
		WithOwnerReferences(owner(cb))
}

func (r *Reconciler) namespace(ctx context.Context, cb *v1alpha1.ClusterBinding) error {
	var ns corev1.Namespace
	// Live: a namespace without our label is not in the cache.
	err := r.Live.Get(ctx, client.ObjectKey{Name: v1alpha1.TenantNamespace(cb.Name)}, &ns)
	if err == nil {
		err = mayUse(&ns, cb)
	}
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	return r.Client.Apply(ctx, namespace(cb), fieldOwner, client.ForceOwnership)
}

func serviceAccount(cb *v1alpha1.ClusterBinding) *corev1ac.ServiceAccountApplyConfiguration {
	return corev1ac.ServiceAccount(v1alpha1.TenantServiceAccount, v1alpha1.TenantNamespace(cb.Name)).
		WithLabels(labels(cb))
}

// impersonationBinding is the bridge's right to act as this tenant, and as no
// other: the role is the operator's, and the backend may only bind it.
func impersonationBinding(cb *v1alpha1.ClusterBinding) *rbacv1ac.RoleBindingApplyConfiguration {
	return rbacv1ac.RoleBinding(v1alpha1.BridgeBinding, v1alpha1.TenantNamespace(cb.Name)).
		WithLabels(labels(cb)).
		WithRoleRef(rbacv1ac.RoleRef().WithAPIGroup(rbacv1.GroupName).WithKind("ClusterRole").WithName(v1alpha1.BridgeImpersonation)).
		WithSubjects(rbacv1ac.Subject().
			WithKind(rbacv1.ServiceAccountKind).
			WithName(v1alpha1.BridgeServiceAccount).
			WithNamespace(v1alpha1.SystemNamespace))
}

// bridgeSecret is the bridge's credential for the repository.
func bridgeSecret(cb *v1alpha1.ClusterBinding, b credential.Bridge) *corev1ac.SecretApplyConfiguration {
	data := map[string][]byte{"username": []byte(credential.BridgeUser)}
	b.WriteTo(data)
	return corev1ac.Secret(v1alpha1.BridgeSecret, v1alpha1.TenantNamespace(cb.Name)).
		WithLabels(labels(cb)).
		WithData(data)
}

func labels(cb *v1alpha1.ClusterBinding) map[string]string {
	return map[string]string{v1alpha1.LabelCluster: cb.Name}
}

func owner(cb *v1alpha1.ClusterBinding) *metav1ac.OwnerReferenceApplyConfiguration {
	return metav1ac.OwnerReference().
		WithAPIVersion(v1alpha1.GroupVersion.String()).
		WithKind("ClusterBinding").
		WithName(cb.Name).
		WithUID(cb.UID).
		WithController(true)
}

// errTaken says that something that is not this cluster's stands in its way.
var errTaken = errors.New("in the way")

// mayUse tells whether a namespace that is there is this ClusterBinding's own.
// One of an earlier ClusterBinding of the same name is not: it is on its way
// out, with all that is in it.
func mayUse(ns *corev1.Namespace, cb *v1alpha1.ClusterBinding) error {
	switch {
	case !metav1.IsControlledBy(ns, cb):
		return fmt.Errorf("%w: namespace %s exists and is not of this ClusterBinding; it is made again once it is gone", errTaken, ns.Name)
	case ns.DeletionTimestamp != nil:
		return fmt.Errorf("%w: namespace %s is being deleted; it is made again once it is gone", errTaken, ns.Name)
	}
	return nil
}
