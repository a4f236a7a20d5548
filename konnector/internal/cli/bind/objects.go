package bind

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/policies/attribution"
	"gitbind.dev/policies/bound"
)

// objects are what binding one API applies, in order.
func objects(connection string, offer restapi.Offer, noAggregate bool) []client.Object {
	api := offer.API
	out := []client.Object{
		attribution.ForBinding(api.Group, api.Resource),
		konnectorRole(api),
		konnectorRoleBinding(api),
	}
	for _, b := range bound.Bindings(api.Group, api.Resource) {
		out = append(out, b)
	}
	if !noAggregate {
		out = append(out,
			peopleRole(api, "view", []string{"get", "list", "watch"}),
			// As for other objects, but no deletecollection: one request that
			// deletes every service of a namespace is not daily work.
			peopleRole(api, "edit", []string{"create", "update", "patch", "delete"}),
		)
	}
	return append(out, &v1alpha1.APIServiceBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "APIServiceBinding"},
		ObjectMeta: metav1.ObjectMeta{Name: api.BindingName()},
		Spec:       v1alpha1.APIServiceBindingSpec{Connection: connection, Template: offer.Name},
	})
}

// roleName is that of the konnector's role for an API, and the begin of others.
func roleName(api v1alpha1.ExportedAPI) string { return "gitbind:api:" + api.BindingName() }

// konnectorRole lets the konnector work on the API's objects, and take back what
// binding the API made, by name, when it is unbound.
func konnectorRole(api v1alpha1.ExportedAPI) *rbacv1.ClusterRole {
	rule := func(suffix string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{api.Group}, Resources: []string{api.Resource + suffix}, Verbs: verbs}
	}
	only := func(verbs []string, group, resource string, names ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: names, Verbs: verbs}
	}
	// Its own rights it cannot delete one by one: it updates them, so that they go
	// with the APIServiceBinding. To make it their owner takes the right to delete them,
	// too, where OwnerReferencesPermissionEnforcement is on.
	change, remove := []string{"get", "update", "delete"}, []string{"get", "delete"}
	name, policies := roleName(api), bound.Names(api.BindingName())
	return clusterRole(name, nil,
		rule("", "get", "list", "watch", "create", "update", "patch", "delete"),
		rule("/status", "get", "update", "patch"),
		rule("/finalizers", "update", "patch"),
		only(change, "apiextensions.k8s.io", "customresourcedefinitions", api.BindingName()),
		only(change, rbacv1.GroupName, "clusterroles", name),
		only(remove, rbacv1.GroupName, "clusterroles", name+":view", name+":edit"),
		only(change, rbacv1.GroupName, "clusterrolebindings", name),
		only(remove, admissionv1.GroupName, "mutatingadmissionpolicybindings", attribution.ForBinding(api.Group, api.Resource).Name),
		// The policies of the offer, and only to take away what turns them on: who could
		// write both could have them say what is in any Secret.
		only(change, admissionv1.GroupName, "validatingadmissionpolicies", policies...),
		only(remove, admissionv1.GroupName, "validatingadmissionpolicybindings", policies...),
	)
}
func konnectorRoleBinding(api v1alpha1.ExportedAPI) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRoleBinding"},
		ObjectMeta: metav1.ObjectMeta{Name: roleName(api)},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: roleName(api)},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: appcluster.SystemNamespace, Name: "konnector"}},
	}
}

// peopleRole adds the API to the ClusterRole "view" or "edit" that every
// cluster has, as other extensions do.
func peopleRole(api v1alpha1.ExportedAPI, aggregate string, verbs []string) *rbacv1.ClusterRole {
	labels := map[string]string{"rbac.authorization.k8s.io/aggregate-to-" + aggregate: "true"}
	return clusterRole(roleName(api)+":"+aggregate, labels, rbacv1.PolicyRule{APIGroups: []string{api.Group}, Resources: []string{api.Resource}, Verbs: verbs})
}

func clusterRole(name string, labels map[string]string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Rules:      rules,
	}
}
