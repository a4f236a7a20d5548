package env

import (
	"context"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// TestClusters shares one environment between its cases, because each start
// takes seconds.
func TestClusters(t *testing.T) {
	t.Parallel()
	e := StartForTest(t, Options{})
	app := e.Cluster(App)
	t.Run("both API servers answer, with the version that was asked for", func(t *testing.T) {
		for _, name := range []string{App, Control} {
			v, err := clientFor(t, e.Cluster(name).Kubeconfig).Discovery().ServerVersion()
			if err != nil || v.Minor != "36" {
				t.Errorf("server version of %s = %v, %v; want 1.36", name, v, err)
			}
		}
	})
	t.Run("a deleted namespace goes away", func(t *testing.T) { testNamespaceDeletion(t, app) })
	t.Run("a service account has its own rights and no others", func(t *testing.T) { testServiceAccount(t, app) })
	t.Run("a user is who the kubeconfig says", func(t *testing.T) { testUser(t, app) })
	t.Run("another process attaches to it", func(t *testing.T) { testAttach(t, e) })
	t.Run("a mutating admission policy sees the user", func(t *testing.T) { testMutatingPolicy(t, app) })
	t.Run("the fakes of other tests do as it does", func(t *testing.T) { testFakes(t, e.Cluster(Control)) })
	t.Run("an API server comes back on its port with its data", func(t *testing.T) { testRestart(t, e.Cluster(Control)) })
	t.Run("a reset cluster is as it was, and runs on", func(t *testing.T) { testReset(t, app) })
	t.Run("a restored cluster is as it was", func(t *testing.T) { testRestore(t, e.Cluster(Control)) })
}

func testNamespaceDeletion(t *testing.T, c *Cluster) {
	client := clientFor(t, c.Kubeconfig)
	ctx := testContext(t)
	createNamespace(t, client, "short-lived")
	_, err := client.CoreV1().ConfigMaps("short-lived").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "content"}}, metav1.CreateOptions{})
	fatal(t, err)
	fatal(t, client.CoreV1().Namespaces().Delete(ctx, "short-lived", metav1.DeleteOptions{}))
	fatal(t, until(ctx, "the namespace to be gone", func(ctx context.Context) (bool, error) {
		_, err := client.CoreV1().Namespaces().Get(ctx, "short-lived", metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	}))
}

func testServiceAccount(t *testing.T, c *Cluster) {
	admin := clientFor(t, c.Kubeconfig)
	ctx := testContext(t)
	createNamespace(t, admin, "agents")
	_, err := admin.CoreV1().ServiceAccounts("agents").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "agent"}}, metav1.CreateOptions{})
	fatal(t, err)
	_, err = admin.RbacV1().RoleBindings("agents").Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "agent"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "agent", Namespace: "agents"}},
	}, metav1.CreateOptions{})
	fatal(t, err)

	path, err := c.KubeconfigFor(ctx, "agents", "agent")
	fatal(t, err)
	agent := clientFor(t, path)
	fatal(t, until(ctx, "the role to be there", func(ctx context.Context) (bool, error) {
		_, err := agent.CoreV1().ConfigMaps("agents").List(ctx, metav1.ListOptions{})
		return err == nil, err
	}))
	if _, err := agent.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("list in another namespace: got %v, want forbidden", err)
	}
	if _, err := c.KubeconfigFor(ctx, "agents", "nobody"); !apierrors.IsNotFound(err) {
		t.Errorf("kubeconfig of a service account that is not there: got %v, want not found", err)
	}
}

func testUser(t *testing.T, c *Cluster) {
	path, err := c.UserKubeconfig("alice@example.com", "team-a")
	fatal(t, err)
	if filepath.Base(path) != "app-user-alice%40example.com-team-a.yaml" {
		t.Errorf("path = %s", path)
	}
	alice := clientFor(t, path)
	if _, err := alice.CoreV1().ConfigMaps("default").List(testContext(t), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("list without rights: got %v, want forbidden", err)
	}
}

// testMutatingPolicy shows that the feature that names the authors of changes
// is served without any setting.
func testMutatingPolicy(t *testing.T, c *Cluster) {
	admin := clientFor(t, c.Kubeconfig)
	ctx := testContext(t)
	createNamespace(t, admin, "attributed")
	policy := &admissionv1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "changed-by"},
		Spec: admissionv1.MutatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: "attributed"}},
				ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
					Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
				}}},
			},
			ReinvocationPolicy: admissionv1.NeverReinvocationPolicy,
			Mutations: []admissionv1.Mutation{{
				PatchType: admissionv1.PatchTypeApplyConfiguration,
				ApplyConfiguration: &admissionv1.ApplyConfiguration{
					Expression: `Object{metadata: Object.metadata{annotations: {"changed-by": request.userInfo.username}}}`,
				},
			}},
		},
	}
	_, err := admin.AdmissionregistrationV1().MutatingAdmissionPolicies().Create(ctx, policy, metav1.CreateOptions{})
	fatal(t, err)
	_, err = admin.AdmissionregistrationV1().MutatingAdmissionPolicyBindings().Create(ctx, &admissionv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "changed-by"},
		Spec:       admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: "changed-by"},
	}, metav1.CreateOptions{})
	fatal(t, err)
	_, err = admin.RbacV1().RoleBindings("attributed").Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "editors"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "alice"}},
	}, metav1.CreateOptions{})
	fatal(t, err)

	path, err := c.UserKubeconfig("alice")
	fatal(t, err)
	alice := clientFor(t, path)
	// The API server takes a moment to see a new policy.
	fatal(t, until(ctx, "the policy to write alice's name", func(ctx context.Context) (bool, error) {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "forged-", Annotations: map[string]string{"changed-by": "bob"}}}
		cm, err := alice.CoreV1().ConfigMaps("attributed").Create(ctx, cm, metav1.CreateOptions{})
		return err == nil && cm.Annotations["changed-by"] == "alice", err
	}))
}

func testRestart(t *testing.T, c *Cluster) {
	client := clientFor(t, c.Kubeconfig)
	ctx := t.Context() // a stop and a start have deadlines of their own
	createNamespace(t, client, "survivor")
	// Without --shutdown-send-retry-after it would wait a minute for clients to end their watches.
	fatal(t, c.APIServer.Signal(syscall.SIGTERM))
	select {
	case <-c.APIServer.Done():
	case <-time.After(45 * time.Second):
		t.Error("it does not end, because clients watch")
	}
	fatal(t, c.APIServer.Stop(ctx))
	fatal(t, c.APIServer.Start(ctx))

	before := c.APIServer.PID()
	fatal(t, c.APIServer.Kill())
	fatal(t, c.Etcd.Stop(ctx))
	if c.APIServer.PID() != 0 || c.Etcd.PID() != 0 {
		t.Fatal("the processes have a PID though they were stopped")
	}
	fatal(t, c.Etcd.Start(ctx))
	fatal(t, c.APIServer.Start(ctx))
	if c.APIServer.PID() == before {
		t.Error("the API server has the PID of the one that was killed")
	}
	_, err := client.CoreV1().Namespaces().Get(testContext(t), "survivor", metav1.GetOptions{})
	fatal(t, err)
}

func createNamespace(t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()
	_, err := client.CoreV1().Namespaces().Create(testContext(t), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	fatal(t, err)
}

func clientFor(t *testing.T, kubeconfig string) kubernetes.Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	fatal(t, err)
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	fatal(t, err)
	return client
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func fatal(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func testRestore(t *testing.T, c *Cluster) {
	client := clientFor(t, c.Kubeconfig)
	ctx := t.Context() // a stop and a start have deadlines of their own
	createNamespace(t, client, "before")
	snapshot, err := c.Snapshot(ctx)
	fatal(t, err)
	createNamespace(t, client, "after")
	fatal(t, client.CoreV1().Namespaces().Delete(testContext(t), "before", metav1.DeleteOptions{}))
	fatal(t, c.Restore(ctx, snapshot))
	ns, err := client.CoreV1().Namespaces().Get(testContext(t), "before", metav1.GetOptions{})
	if err != nil || ns.DeletionTimestamp != nil {
		t.Errorf("what was there: %v %v", ns, err)
	}
	if _, err := client.CoreV1().Namespaces().Get(testContext(t), "after", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("what came later: %v", err)
	}
}

func testReset(t *testing.T, c *Cluster) {
	ctx := testContext(t)
	maps := clientFor(t, c.Kubeconfig).CoreV1().ConfigMaps("default")
	configMap := func(name, value string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{"example.org/kept"}}, Data: map[string]string{"value": value}}
	}
	_, err := maps.Create(ctx, configMap("changed", "before"), metav1.CreateOptions{})
	fatal(t, err)
	_, err = maps.Create(ctx, configMap("removed", "before"), metav1.CreateOptions{})
	fatal(t, err)
	state, err := c.State(ctx)
	fatal(t, err)
	pid := c.APIServer.PID()

	_, err = maps.Create(ctx, configMap("made", "after"), metav1.CreateOptions{})
	fatal(t, err)
	_, err = maps.Update(ctx, configMap("changed", "after"), metav1.UpdateOptions{})
	fatal(t, err)
	removed := configMap("removed", "before")
	removed.Finalizers = nil
	_, err = maps.Update(ctx, removed, metav1.UpdateOptions{})
	fatal(t, err)
	fatal(t, maps.Delete(ctx, "removed", metav1.DeleteOptions{}))

	fatal(t, c.Reset(ctx, state))
	fatal(t, until(ctx, "the state to be what it was", func(ctx context.Context) (bool, error) {
		list, err := maps.List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		got := map[string]string{}
		for _, m := range list.Items {
			got[m.Name] = m.Data["value"]
		}
		delete(got, "kube-root-ca.crt")
		return len(got) == 2 && got["changed"] == "before" && got["removed"] == "before", fmt.Errorf("it has %v", got)
	}))
	if c.APIServer.PID() != pid {
		t.Error("the API server was restarted")
	}
}
