package kustomize_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

var dryRun = []string{metav1.DryRunAll}

// user is for requests as somebody.
func (c cluster) user(t *testing.T, name string) kubernetes.Interface {
	t.Helper()
	config := c.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: []string{"system:authenticated"}}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// refuses waits until the named policy refuses something, and allows until nothing does:
// rights and policies are in force in a moment. Both are subtests in parallel.
func (c cluster) refuses(t *testing.T, policy, what string, try func(context.Context) error) {
	t.Helper()
	c.allows(t, what, func(ctx context.Context) error {
		err := try(ctx)
		switch {
		case err == nil:
			return fmt.Errorf("%s does not refuse it", policy)
		case !strings.Contains(err.Error(), "'"+policy+"'"):
			return fmt.Errorf("not %s refuses it: %w", policy, err)
		}
		return nil
	})
}

func (c cluster) allows(t *testing.T, what string, try func(context.Context) error) {
	t.Helper()
	t.Run(what, func(t *testing.T) {
		t.Parallel()
		if err := c.eventually(t, try); err != nil {
			t.Error(err)
		}
	})
}

// secrets tries what the rights of backend, bridge and tenants on Secrets are good for.
func (c cluster) secrets(t *testing.T) {
	const backend, bridge, tenant = "system:serviceaccount:gitbind-system:gitbind-backend", "system:serviceaccount:gitbind-system:gitbind-gitbridge", "system:serviceaccount:gb-rights:gitbind-tenant"
	const policy = "gitbind-control-plane-secrets"
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"gb-rights", "gb-rights-team"} {
		_, err := c.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		must(err)
	}
	must(bind(t.Context(), c.client, "gb-rights-team", "inputs", rbacv1.RoleRef{Kind: "ClusterRole", Name: "gitbind:claim-inputs"}, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "gb-rights", Name: "gitbind-tenant"}))
	// What they have they can hand on.
	must(bind(t.Context(), c.user(t, backend), "", "handed-on", rbacv1.RoleRef{Kind: "ClusterRole", Name: "gitbind-backend"}, user("stranger")))
	must(bind(t.Context(), c.user(t, bridge), "gitbind-system", "handed-on", rbacv1.RoleRef{Kind: "Role", Name: "gitbind-gitbridge"}, user("stranger")))
	c.allows(t, "what was handed on", func(ctx context.Context) error {
		_, err := c.user(t, "stranger").CoreV1().Secrets("gitbind-system").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "any"}}, metav1.CreateOptions{DryRun: dryRun})
		return err
	})

	// As the garbage collector has them, and what may write Secrets and make none.
	must(func() error {
		_, err := c.client.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "collector"}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "update", "patch", "delete"}},
		}}, metav1.CreateOptions{})
		return err
	}())
	must(bind(t.Context(), c.client, "", "collector", rbacv1.RoleRef{Kind: "ClusterRole", Name: "collector"}, user("collector")))
	_, err := c.client.CoreV1().Secrets("gb-rights-team").Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "kept", Finalizers: []string{"example.org/kept"}, Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"}}, Type: corev1.SecretTypeServiceAccountToken,
	}, metav1.CreateOptions{})
	must(err)
	patch := func(user, metadata string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := c.user(t, user).CoreV1().Secrets("gb-rights-team").Patch(ctx, "kept", types.MergePatchType, []byte(`{"metadata": `+metadata+`}`), metav1.PatchOptions{DryRun: dryRun})
			return err
		}
	}

	// By an apply, as the rights on names know no other way to create.
	apply := func(user, namespace, name, tokenOf string) func(context.Context) error {
		return func(ctx context.Context) error {
			s := corev1ac.Secret(name, namespace).WithStringData(map[string]string{"a": "b"})
			if tokenOf != "" {
				s.WithType(corev1.SecretTypeServiceAccountToken).WithAnnotations(map[string]string{corev1.ServiceAccountNameKey: tokenOf})
			}
			_, err := c.user(t, user).CoreV1().Secrets(namespace).Apply(ctx, s, metav1.ApplyOptions{FieldManager: "test", DryRun: dryRun})
			return err
		}
	}
	create := func(user, namespace, name, tokenOf string) func(context.Context) error {
		return func(ctx context.Context) error {
			s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}
			if tokenOf != "" {
				s.Type, s.Annotations = corev1.SecretTypeServiceAccountToken, map[string]string{corev1.ServiceAccountNameKey: tokenOf}
			}
			_, err := c.user(t, user).CoreV1().Secrets(namespace).Create(ctx, s, metav1.CreateOptions{DryRun: dryRun})
			return err
		}
	}
	for what, try := range map[string]func(context.Context) error{
		"the backend becomes a controller":              apply(backend, "kube-system", "gitbind-bridge", "clusterrole-aggregation-controller"),
		"the backend becomes a controller, otherwise":   apply(backend, "kube-system", "gitbind-konnector", "clusterrole-aggregation-controller"),
		"the backend becomes a tenant":                  apply(backend, "gb-rights", "gitbind-bridge", "gitbind-tenant"),
		"the backend becomes the bridge":                apply(backend, "gitbind-system", "gitbind-bridge", "gitbind-gitbridge"),
		"the backend writes elsewhere":                  apply(backend, "default", "gitbind-bridge", ""),
		"the backend writes to claims":                  apply(backend, "gb-rights-team", "gitbind-bridge", ""),
		"the bridge becomes the backend":                create(bridge, "gitbind-system", "any", "gitbind-backend"),
		"a tenant becomes another":                      create(tenant, "gb-rights-team", "any", "default"),
		"with what was handed on, one is a controller":  apply("stranger", "kube-system", "gitbind-bridge", "clusterrole-aggregation-controller"),
		"with what was handed on, one is the backend":   create("stranger", "gitbind-system", "any", "gitbind-backend"),
		"a token is had of another":                     patch("collector", `{"annotations": {"`+corev1.ServiceAccountNameKey+`": "gitbind-tenant"}}`),
		"with what was handed on, one writes elsewhere": apply("stranger", "default", "gitbind-bridge", ""),
	} {
		c.refuses(t, policy, what, try)
	}

	must(bind(t.Context(), c.client, "gb-rights", "admin", rbacv1.RoleRef{Kind: "ClusterRole", Name: "edit"}, user("editor")))
	for what, try := range map[string]func(context.Context) error{
		"the backend's own":                               apply(backend, "gb-rights", "gitbind-bridge", ""),
		"the backend's other":                             apply(backend, "gb-rights", "gitbind-konnector", ""),
		"the bridge's keys":                               create(bridge, "gitbind-system", "gitbind-bridge-encryption", ""),
		"what goes with a claim":                          create(tenant, "gb-rights-team", "gitbind-bridge", ""),
		"the end of a token":                              patch("collector", `{"finalizers": null}`),
		"a token by who may ask for one":                  create("editor", "gb-rights", "any", "default"),
		"a token by who may write Secrets everywhere":     func(ctx context.Context) error { return c.createToken(ctx, "gb-rights-team") },
		"a Secret of such a name in anybody else's place": func(ctx context.Context) error { return c.createToken(ctx, "default") },
	} {
		c.allows(t, what, try)
	}
}

// rightsTakenAway tries what the backend's rights on roles and their bindings are good for.
func (c cluster) rightsTakenAway(t *testing.T) {
	const backend, policy, namespace = "system:serviceaccount:gitbind-system:gitbind-backend", "gitbind-control-plane-roles", "gb-taken"
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	all := c.client.RbacV1()
	for _, name := range []string{namespace, "gb-taken-team"} {
		_, err := c.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		must(err)
	}
	for _, in := range []string{namespace, "gb-taken-team", "default", "kube-system"} {
		_, err := all.Roles(in).Create(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "kept"}}, metav1.CreateOptions{})
		must(err)
		must(bind(t.Context(), c.client, in, "kept", rbacv1.RoleRef{Kind: "Role", Name: "kept"}, user("somebody")))
	}
	_, err := all.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "gitbind:tenant:taken"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"gitbind.dev"}, Resources: []string{"apiserviceexports"}, Verbs: []string{"get"}},
	}}, metav1.CreateOptions{})
	must(err)
	must(bind(t.Context(), c.user(t, backend), "", "taken-on", rbacv1.RoleRef{Kind: "ClusterRole", Name: "gitbind-backend"}, user("taker")))
	must(bind(t.Context(), c.client, "default", "admin", rbacv1.RoleRef{Kind: "ClusterRole", Name: "admin"}, user("admin-of-default")))

	role := func(user, name, change string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := c.user(t, user).RbacV1().ClusterRoles().Patch(ctx, name, types.MergePatchType, []byte(change), metav1.PatchOptions{DryRun: dryRun})
			return err
		}
	}
	const noRules = `{"rules": []}`
	unbind := func(user, namespace string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := c.user(t, user).RbacV1().RoleBindings(namespace).Patch(ctx, "kept", types.MergePatchType, []byte(`{"subjects": []}`), metav1.PatchOptions{DryRun: dryRun})
			return err
		}
	}
	deleteBinding := func(user, namespace string) func(context.Context) error {
		return func(ctx context.Context) error {
			return c.user(t, user).RbacV1().RoleBindings(namespace).Delete(ctx, "kept", metav1.DeleteOptions{DryRun: dryRun})
		}
	}
	deleteRole := func(user, namespace string) func(context.Context) error {
		return func(ctx context.Context) error {
			return c.user(t, user).RbacV1().Roles(namespace).Delete(ctx, "kept", metav1.DeleteOptions{DryRun: dryRun})
		}
	}
	for what, try := range map[string]func(context.Context) error{
		"administrators' rights":                   role(backend, "cluster-admin", noRules),
		"the bridge's":                             role(backend, "gitbind-bridge-impersonate", noRules),
		"administrators', with what was handed on": role("taker", "cluster-admin", noRules),
		"a RoleBinding":                            deleteBinding(backend, "kube-system"),
		"a RoleBinding of claims":                  deleteBinding(backend, "gb-taken-team"),
		"a RoleBinding, with what was handed on":   deleteBinding("taker", "kube-system"),
		"the subjects of a RoleBinding":            unbind(backend, "default"),
		"a Role":                                   deleteRole(backend, "kube-system"),
		"a Role, with what was handed on":          deleteRole("taker", "default"),
	} {
		c.refuses(t, policy, what, try)
	}
	const controller = "system:serviceaccount:kube-system:"
	for what, try := range map[string]func(context.Context) error{
		"the backend's own ClusterRole":    role(backend, "gitbind:tenant:taken", noRules),
		"the backend's own RoleBinding":    deleteBinding(backend, namespace),
		"its subjects":                     unbind(backend, namespace),
		"the backend's own Role":           deleteRole(backend, namespace),
		"roles that are aggregated":        role(controller+"clusterrole-aggregation-controller", "view", noRules),
		"what goes with a namespace":       deleteBinding(controller+"namespace-controller", "default"),
		"what goes with its owner":         deleteBinding(controller+"generic-garbage-collector", "default"),
		"what an administrator of it ends": deleteRole("admin-of-default", "default"),
		"what they unbind":                 unbind("admin-of-default", "default"),
	} {
		c.allows(t, what, try)
	}
}

func user(name string) rbacv1.Subject {
	return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}
}

// bind gives a subject a role, in a namespace or, for "", everywhere.
func bind(ctx context.Context, as kubernetes.Interface, namespace, name string, role rbacv1.RoleRef, subject rbacv1.Subject) error {
	meta, subjects := metav1.ObjectMeta{Name: name}, []rbacv1.Subject{subject}
	role.APIGroup = rbacv1.GroupName
	if namespace == "" {
		_, err := as.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: role, Subjects: subjects}, metav1.CreateOptions{})
		return err
	}
	_, err := as.RbacV1().RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: role, Subjects: subjects}, metav1.CreateOptions{})
	return err
}

// createToken creates, as the cluster's administrator, a Secret with a ServiceAccount's token.
func (c cluster) createToken(ctx context.Context, namespace string) error {
	_, err := c.client.CoreV1().Secrets(namespace).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "gitbind-bridge", Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"}}, Type: corev1.SecretTypeServiceAccountToken,
	}, metav1.CreateOptions{DryRun: dryRun})
	return err
}

// roles tries what the konnector's right to update the rights of an API is good for. They
// are as earlier versions bound an API, with more of it than is needed.
func (c cluster) roles(t *testing.T) {
	const name, policy = "gitbind:api:things.example.org", "gitbind-konnector-roles"
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, role := range []string{name, name + ":edit"} {
		_, err := c.client.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: role}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterroles"}, ResourceNames: []string{name, name + ":edit"}, Verbs: []string{"get", "update", "delete"}},
			{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterrolebindings"}, ResourceNames: []string{name}, Verbs: []string{"get", "update", "delete"}},
		}}, metav1.CreateOptions{})
		must(err)
	}
	must(bind(t.Context(), c.client, "", name, rbacv1.RoleRef{Kind: "ClusterRole", Name: name}, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "gitbind-system", Name: "konnector"}))

	konnector := c.user(t, "system:serviceaccount:gitbind-system:konnector").RbacV1()
	// As a dry run: the garbage collector deletes what an owner has that does not exist.
	role := func(name string, change func(*rbacv1.ClusterRole)) func(context.Context) error {
		return func(ctx context.Context) error {
			o, err := konnector.ClusterRoles().Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			change(o)
			_, err = konnector.ClusterRoles().Update(ctx, o, metav1.UpdateOptions{DryRun: dryRun})
			return err
		}
	}
	binding := func(change func(*rbacv1.ClusterRoleBinding)) func(context.Context) error {
		return func(ctx context.Context) error {
			o, err := konnector.ClusterRoleBindings().Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			change(o)
			_, err = konnector.ClusterRoleBindings().Update(ctx, o, metav1.UpdateOptions{DryRun: dryRun})
			return err
		}
	}
	// It has these rights itself, so RBAC lets it write them down.
	secrets := func(o *rbacv1.ClusterRole) {
		o.Rules = append(o.Rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"create", "patch", "delete"}})
	}
	own := []metav1.OwnerReference{{APIVersion: "gitbind.dev/v1alpha1", Kind: "APIServiceBinding", Name: "things.example.org", UID: "u1"}}
	c.allows(t, "the role goes with the binding", role(name, func(o *rbacv1.ClusterRole) { o.OwnerReferences = own }))
	c.allows(t, "its binding, too", binding(func(o *rbacv1.ClusterRoleBinding) { o.OwnerReferences = own }))
	for what, try := range map[string]func(context.Context) error{
		"it adds rights to its role": role(name, secrets),
		"it adds rights to people's": role(name+":edit", secrets),
		"it takes rights away":       role(name, func(o *rbacv1.ClusterRole) { o.Rules = nil }),
		"it gives its role to who views": role(name, func(o *rbacv1.ClusterRole) {
			o.Labels = map[string]string{"rbac.authorization.k8s.io/aggregate-to-view": "true"}
		}),
		"it gives its role to somebody": binding(func(o *rbacv1.ClusterRoleBinding) {
			o.Subjects = append(o.Subjects, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "stranger"})
		}),
		"it gives its role to somebody alone": binding(func(o *rbacv1.ClusterRoleBinding) {
			o.Subjects = []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "stranger"}}
		}),
	} {
		c.refuses(t, policy, what, try)
	}
}
