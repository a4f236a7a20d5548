package app

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/test/env"
)

// testConnectIsARight takes the right to connect from all, and gives it to one.
func (f *fixture) testConnectIsARight(t *testing.T) {
	before := f.connect(t, env.Carol, "rights")
	var everybody rbacv1.ClusterRoleBinding
	if err := f.admin.Get(t.Context(), client.ObjectKey{Name: v1alpha1.ClusterOwnerRole}, &everybody); err != nil {
		t.Fatal(err)
	}
	changed := everybody.DeepCopy()
	changed.Subjects = []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "oidc:platform-users"}}
	if err := f.admin.Update(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	defer func() {
		changed.Subjects = everybody.Subjects
		if err := f.admin.Update(t.Context(), changed); err != nil {
			t.Error(err)
		}
		eventually(t, "everybody connects again", func() error {
			status, message := f.call(t, f.tokens[env.Bob], "POST", "/v1/clusters", restapi.ConnectRequest{Name: "test", ClusterUID: "first"}, nil)
			if status != http.StatusOK {
				return fmt.Errorf("%d %s", status, message)
			}
			return nil
		})
	}()
	connect := func(uid string) (int, string) {
		return f.call(t, f.tokens[env.Carol], "POST", "/v1/clusters", restapi.ConnectRequest{Name: "test", ClusterUID: uid}, nil)
	}
	eventually(t, "without the right nobody connects", func() error {
		status, message := connect("rights-2")
		if status != http.StatusForbidden || !strings.Contains(message, "create on clusterbindings.gitbind.dev") ||
			!strings.Contains(message, "--clusterrole=gitbind:cluster-owner --user=oidc:carol@example.com") {
			return fmt.Errorf("%d %s", status, message)
		}
		return nil
	})
	if status, _ := connect("rights"); status != http.StatusForbidden {
		t.Errorf("connecting again: %d", status)
	}
	rotate := "/v1/clusters/" + before.ID + "/credential/rotate"
	if status, _ := f.call(t, f.tokens[env.Carol], "POST", rotate, nil, nil); status != http.StatusForbidden {
		t.Errorf("a new credential: %d", status)
	}
	// What the cluster has stays, and its owner may end it.
	if out, err := gitRemote(t, before.RepositoryURL, "konnector", before.Credential.Password); err != nil {
		t.Errorf("the cluster's own credential: %v %s", err, out)
	}
	if status, message := f.call(t, f.tokens[env.Carol], "DELETE", "/v1/clusters/"+before.ID+"/credential", nil, nil); status != http.StatusOK {
		t.Errorf("revoke: %d %s", status, message)
	}

	// With the words of the refusal.
	f.kubectl(t, "create", "clusterrolebinding", "carol-connects", "--clusterrole=gitbind:cluster-owner", "--user=oidc:carol@example.com")
	eventually(t, "with the right she connects", func() error {
		if status, message := connect("rights"); status != http.StatusOK {
			return fmt.Errorf("%d %s", status, message)
		}
		return nil
	})
}

// testDirectCreate has somebody with the right to connect make ClusterBindings by hand.
func (f *fixture) testDirectCreate(t *testing.T) {
	cfg := rest.CopyConfig(f.cfg)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: "oidc:mallory@example.com"}
	mallory := newClient(t, cfg)
	f.kubectl(t, "create", "clusterrolebinding", "mallory-connects", "--clusterrole=gitbind:cluster-owner", "--user=oidc:mallory@example.com")
	eventually(t, "Mallory is refused by the policy", func() error {
		cb := &v1alpha1.ClusterBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "mallorys", Annotations: map[string]string{"try": "1"}},
			Spec:       v1alpha1.ClusterBindingSpec{DisplayName: "x", Owner: v1alpha1.Owner{Issuer: f.Dex.Issuer, Subject: "alice", Username: "oidc:alice@example.com"}},
		}
		err := mallory.Create(t.Context(), cb, client.DryRunAll)
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "kubectl gitbind connect") {
			return fmt.Errorf("got: %w", err)
		}
		return nil
	})
}

// testMaxClusters lets Bob have two clusters more than he has.
func (f *fixture) testMaxClusters(t *testing.T) {
	f.connect(t, env.Bob, "first")
	var own []restapi.Cluster
	f.call(t, f.tokens[env.Bob], "GET", "/v1/clusters", nil, &own)
	// Others may have shared some with him.
	own = slices.DeleteFunc(own, func(c restapi.Cluster) bool { return c.Owner != "" })
	f.stop()
	f.opts.limits.clusters = len(own) + 2
	f.run(t)
	defer func() { f.opts.limits.clusters = 0 }()

	// At the same time, so that none knows of the other.
	statuses := make([]int, 5)
	messages := make([]string, 5)
	var all sync.WaitGroup
	for i := range statuses {
		all.Go(func() {
			statuses[i], messages[i] = f.call(t, f.tokens[env.Bob], "POST", "/v1/clusters", restapi.ConnectRequest{Name: "more", ClusterUID: fmt.Sprintf("more-%d", i)}, nil)
		})
	}
	all.Wait()
	count := map[int]int{}
	for i, status := range statuses {
		if count[status]++; status == http.StatusForbidden && !strings.Contains(messages[i], "--max-clusters") {
			t.Errorf("refused with %q", messages[i])
		}
	}
	if count[http.StatusOK] != 2 || count[http.StatusForbidden] != 3 {
		t.Errorf("got %v %q", statuses, messages)
	}
	f.connect(t, env.Bob, "first")
	f.connect(t, env.Carol, "another-owners")
}

// testBackendIsNoTenant tries with the backend's own credential.
func (f *fixture) testBackendIsNoTenant(t *testing.T) {
	c := f.connect(t, env.Alice, "no-tenant")
	namespace := v1alpha1.TenantNamespace(c.ID)
	backend, err := clientcmd.BuildConfigFromFlags("", f.opts.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	tenant := rest.CopyConfig(backend)
	tenant.Impersonate.UserName = "system:serviceaccount:" + namespace + ":" + v1alpha1.TenantServiceAccount
	if err := newClient(t, tenant).Create(t.Context(), &authenticationv1.SelfSubjectReview{}); !apierrors.IsForbidden(err) {
		t.Errorf("the backend acts as a tenant: %v", err)
	}
	own := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: v1alpha1.SystemNamespace, Name: "gitbind-backend"}}
	bridge := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: v1alpha1.SystemNamespace, Name: v1alpha1.BridgeServiceAccount}}
	role := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: v1alpha1.BridgeImpersonation}
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "try"}
	eventually(t, "the policy is in force", func() error {
		for what, o := range map[string]client.Object{
			"itself":                         &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: role, Subjects: own},
			"itself beside the bridge":       &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: role, Subjects: append(own, bridge...)},
			"the bridge in all namespaces":   &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "try"}, RoleRef: role, Subjects: bridge},
			"itself to a role that it makes": &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "try"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, Verbs: []string{"impersonate"}}}},
			"itself to an administrator's":   &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"}, Subjects: own},
		} {
			if err := newClient(t, backend).Create(t.Context(), o, client.DryRunAll); !apierrors.IsForbidden(err) {
				return fmt.Errorf("the backend binds %s: %w", what, err)
			}
		}
		return nil
	})
}
