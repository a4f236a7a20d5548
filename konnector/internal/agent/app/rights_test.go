package app_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/policies/bound"
)

// The konnector's ServiceAccount, as the API server sees it. What it can do
// beyond its own needs, because RBAC knows no narrower right, is named: see
// docs/decisions/2026-11-21-credentials.md.
func TestTheKonnectorMayDoWhatItsRolesSayAndNothingElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	konnector, err := kubernetes.NewForConfig(w.konnector)
	w.must(err)
	may := func(verb, group, resource, namespace, name string) bool {
		t.Helper()
		resource, sub, _ := strings.Cut(resource, "/")
		review, err := konnector.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: verb, Group: group, Resource: resource, Subresource: sub, Namespace: namespace, Name: name,
			}},
		}, metav1.CreateOptions{})
		w.must(err)
		return review.Status.Allowed
	}
	// The authorizer hears of what was granted in a moment.
	w.konnectorMay(authorizationv1.ResourceAttributes{Verb: "list", Group: w.group, Resource: w.plural}, true)
	const crds = "apiextensions.k8s.io customresourcedefinitions"
	const rbac, admission = "rbac.authorization.k8s.io ", "admissionregistration.k8s.io "
	// verbs, group and resource, namespace, name
	for _, c := range []struct {
		verbs, what, namespace, name string
		want                         bool
	}{
		{"get list watch", " secrets", "gitbind-system", "", true},
		{"update deletecollection", " secrets", "gitbind-system", "another", false},
		{"get list watch update deletecollection", " secrets", "default", "", false},
		{"get list watch update deletecollection", " secrets", "kube-system", "", false},
		{"get list watch update deletecollection", " secrets", "", "", false},
		{"get list create update delete", " configmaps", "gitbind-system", "", false},
		{"get list create", " pods", "", "", false},
		{"create", " pods/exec", "gitbind-system", "", false},
		{"create", " serviceaccounts/token", "gitbind-system", "konnector", false},
		{"impersonate", " users", "", "", false},
		{"impersonate", " serviceaccounts", "kube-system", "", false},
		{"get list", " nodes", "", "", false},
		{"create update patch delete", " namespaces", "", "", false},
		{"create update patch delete", "apps deployments", "gitbind-system", "konnector", false},
		{"create bind escalate", rbac + "clusterroles", "", "", false},
		{"update delete", rbac + "clusterroles", "", "cluster-admin", false},
		{"create", rbac + "clusterrolebindings", "", "", false},
		{"update delete", rbac + "clusterrolebindings", "", "gitbind-konnector", false},
		{"create update patch delete bind escalate", rbac + "roles", "gitbind-system", "", false},
		{"create update patch delete", rbac + "rolebindings", "gitbind-system", "", false},
		{"create update patch delete", admission + "mutatingadmissionpolicies", "", "", false},
		{"create update patch", admission + "mutatingadmissionpolicybindings", "", "", false},
		{"create update patch delete", admission + "mutatingwebhookconfigurations", "", "", false},
		{"update patch delete", admission + "validatingadmissionpolicies", "", "gitbind-konnector-secrets", false},
		{"create list watch update patch", admission + "validatingadmissionpolicybindings", "", bound.Names(w.binding)[0], false},
		{"delete", admission + "validatingadmissionpolicybindings", "", "gitbind-konnector-secrets", false},
		{"create update patch delete", "gitbind.dev connections", "", "", false},
		{"update patch delete", crds, "", "postgresqlinstances.others.example.org", false},
		{"delete update patch", crds, "", "", false},
		{"get list create update delete", "others.example.org postgresqlinstances", "", "", false},
		{"get update", "coordination.k8s.io leases", "kube-system", "", false},
		{"update", "coordination.k8s.io leases", "gitbind-system", "another", false},
		{"get list update delete", "events.k8s.io events", "default", "", false},

		{"get list watch create update patch delete", w.group + " " + w.plural, "", "", true},
		{"update delete", crds, "", w.binding, true},
		{"get update", "coordination.k8s.io leases", "gitbind-system", "gitbind-konnector", true},
		{"get update delete", admission + "validatingadmissionpolicies", "", bound.Names(w.binding)[0], true},
		{"get delete", admission + "validatingadmissionpolicybindings", "", bound.Names(w.binding)[0], true},
		// What RBAC knows no narrower right for.
		{"list watch create", admission + "validatingadmissionpolicies", "", "", true},
		{"create", crds, "", "any.example.org", true},
		{"create patch", "events.k8s.io events", "default", "", true},
		{"get list watch", " namespaces", "", "", true},
		// A policy narrows it, see below.
		{"create patch delete", " secrets", "", "", true},
	} {
		group, resource, _ := strings.Cut(c.what, " ")
		for verb := range strings.FieldsSeq(c.verbs) {
			if got := may(verb, group, resource, c.namespace, c.name); got != c.want {
				t.Errorf("%s %s in %q named %q: %v", verb, c.what, c.namespace, c.name, got)
			}
		}
	}

	// What connecting grants, and only that.
	grantCredential(w)
	if !may("update", "", "secrets", "gitbind-system", w.name) || may("update", "", "secrets", "gitbind-system", "another") ||
		may("update", "", "secrets", "default", w.name) {
		t.Error("the Role of a Connection gives more or less than to update its Secret")
	}

	// The API server means it.
	as, err := client.New(w.konnector, client.Options{Scheme: w.client.Scheme()})
	w.must(err)
	for what, err := range map[string]error{
		"list Secrets":          as.List(t.Context(), &corev1.SecretList{}),
		"read another's Secret": as.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "any"}, &corev1.Secret{}),
		"make itself administrator": as.Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "mine"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "gitbind-system", Name: "konnector"}},
		}),
		"make a ClusterRole": as.Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "mine"}}),
		"add a right to its own role": func() error {
			role := &rbacv1.ClusterRole{}
			w.must(w.client.Get(t.Context(), client.ObjectKey{Name: "gitbind:api:" + w.binding}, role))
			role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}})
			return as.Update(t.Context(), role)
		}(),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", what, err)
		}
	}

	// The whole list, so that a new right is noticed.
	rules, err := konnector.AuthorizationV1().SelfSubjectRulesReviews().Create(t.Context(), &authorizationv1.SelfSubjectRulesReview{
		Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: "default"},
	}, metav1.CreateOptions{})
	w.must(err)
	var writes []string
	for _, r := range rules.Status.ResourceRules {
		for _, verb := range r.Verbs {
			if len(r.ResourceNames) == 0 && !slices.Contains([]string{"get", "list", "watch"}, verb) && !slices.ContainsFunc(r.APIGroups, func(g string) bool { return strings.HasSuffix(g, ".example.org") }) {
				for _, resource := range r.Resources {
					writes = append(writes, fmt.Sprint(verb, " ", resource, ".", r.APIGroups[0]))
				}
			}
		}
	}
	allowed := []string{"secrets.", "customresourcedefinitions.apiextensions.k8s.io", "validatingadmissionpolicies.admissionregistration.k8s.io", "events.events.k8s.io", "apiservicebindings.gitbind.dev", "apiservicebindings/status.gitbind.dev",
		"apiservicebindings/finalizers.gitbind.dev", "connections/status.gitbind.dev", "selfsubject"}
	for _, write := range writes {
		if !slices.ContainsFunc(allowed, func(a string) bool { return strings.Contains(write, " "+a) }) {
			t.Errorf("it may %s", write)
		}
	}
}

// Roles let the konnector write Secrets in any namespace. A policy lets it write those
// that it delivered, and what connecting grants by name; and it sees no other.
func TestTheKonnectorWritesOnlySecretsThatItDelivered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(w.client.Create(t.Context(), w.secret()))
	grantCredential(w)
	as, err := client.New(w.konnector, client.Options{Scheme: w.client.Scheme()})
	w.must(err)
	secret := func(namespace, name string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, StringData: map[string]string{"password": "theirs"}}
	}
	ours := func(s *corev1.Secret) *corev1.Secret {
		s.Labels = map[string]string{"app.kubernetes.io/managed-by": "gitbind-konnector"}
		return s
	}
	patch := func(s *corev1.Secret, data string, opts ...client.PatchOption) error {
		err := as.Patch(t.Context(), s, client.RawPatch(types.MergePatchType, []byte(data)), opts...)
		if err != nil && len(s.Data) > 0 {
			t.Errorf("Secret %s/%s was seen", s.Namespace, s.Name)
		}
		return err
	}
	const label = `{"metadata":{"labels":{"app.kubernetes.io/managed-by":"gitbind-konnector"}}}`
	const handOver = `{"metadata":{"annotations":{"gitbind.dev/adopt":"orders"}}}`
	for _, namespace := range []string{w.namespace, "gitbind-system", "kube-system"} {
		w.must(w.client.Create(t.Context(), secret(namespace, "theirs")))
		token := ours(secret(namespace, "token"))
		token.Type, token.Annotations = corev1.SecretTypeServiceAccountToken, map[string]string{"kubernetes.io/service-account.name": "default"}
		bootstrap := ours(secret(namespace, "bootstrap-token-abcdef"))
		bootstrap.Type = "bootstrap.kubernetes.io/token"
		theirs := func() *corev1.Secret {
			return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "theirs"}}
		}
		for what, err := range map[string]error{
			"make one":                      as.Create(t.Context(), secret(namespace, "any")),
			"make a ServiceAccount's token": as.Create(t.Context(), token),
			"make a token for nodes":        as.Create(t.Context(), bootstrap),
			"see one":                       patch(theirs(), "{}", client.DryRunAll),
			"mark one as its own":           patch(theirs(), label),
			"hand one over":                 patch(theirs(), handOver),
			"delete one":                    as.Delete(t.Context(), theirs()),
			"make one that is handed over": as.Create(t.Context(), func() *corev1.Secret {
				s := secret(namespace, "any")
				s.Annotations = map[string]string{"gitbind.dev/adopt": "x"}
				return s
			}()),
			"delete what it may only update": as.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "gitbind-system", Name: w.name}}),
		} {
			if strings.HasPrefix(what, "make one") && namespace == "gitbind-system" {
				// There it makes its keys.
				continue
			}
			if !apierrors.IsInvalid(err) {
				t.Errorf("%s in %s: %v", what, namespace, err)
			}
		}
		own := ours(secret(namespace, "own"))
		if v1alpha1.IsSystemNamespace(namespace) {
			if err := as.Create(t.Context(), own); !apierrors.IsInvalid(err) {
				t.Errorf("deliver one to %s: %v", namespace, err)
			}
			// Versions before this one did.
			w.must(w.client.Create(t.Context(), own))
		} else {
			w.must(as.Create(t.Context(), own))
		}
		w.must(patch(own, `{"stringData":{"password":"another"}}`))
		w.must(as.Delete(t.Context(), own))
	}
	// What connecting grants goes on.
	credential := &corev1.Secret{}
	w.must(as.Get(t.Context(), client.ObjectKey{Namespace: "gitbind-system", Name: w.name}, credential))
	credential.Data["password"] = []byte("renewed")
	w.must(as.Update(t.Context(), credential))
}

// grantCredential lets the konnector renew what is in the Connection's Secret, as
// `kubectl gitbind connect` does.
func grantCredential(w *world) {
	w.Helper()
	of := metav1.ObjectMeta{Namespace: "gitbind-system", Name: "gitbind:credential:" + w.name}
	w.must(w.client.Create(w.Context(), &rbacv1.Role{ObjectMeta: of, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{w.name}, Verbs: []string{"update"}},
	}}))
	w.must(w.client.Create(w.Context(), &rbacv1.RoleBinding{ObjectMeta: of,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: of.Name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "gitbind-system", Name: "konnector"}},
	}))
	// The authorizer hears of it in a moment.
	w.konnectorMay(authorizationv1.ResourceAttributes{Verb: "update", Resource: "secrets", Namespace: "gitbind-system", Name: w.name}, true)
}

// noRights waits until the konnector may not use the API any more.
func (w *world) noRights() {
	w.Helper()
	w.konnectorMay(authorizationv1.ResourceAttributes{Verb: "list", Group: w.group, Resource: w.plural}, false)
}

// konnectorMay waits until the API server lets the konnector do something, or no
// more.
func (w *world) konnectorMay(what authorizationv1.ResourceAttributes, want bool) {
	w.Helper()
	konnector, err := kubernetes.NewForConfig(w.konnector)
	w.must(err)
	w.eventually(fmt.Sprintf("it may %s %s: %t", what.Verb, what.Resource, want), func() error {
		r, err := konnector.AuthorizationV1().SelfSubjectAccessReviews().Create(w.Context(), &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &what},
		}, metav1.CreateOptions{})
		if err == nil && r.Status.Allowed != want {
			return fmt.Errorf("it is said: %t", r.Status.Allowed)
		}
		return err
	})
}
