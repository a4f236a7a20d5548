package app_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/policies/attribution"
	"gitbind.dev/policies/bound"
	"gitbind.dev/test/env"
	"gitbind.dev/test/fakeapi"
)

// cluster is the app cluster of all tests here, with everything in it that
// `kubectl gitbind connect` would install, but the konnector itself.
type cluster struct {
	env       *env.Env
	admin     *rest.Config
	client    client.Client
	konnector *rest.Config
	alice     client.Client
	installed env.State
}

// clusters are the app clusters of the tests. A konnector works on everything in its
// cluster, so a test has one to itself.
var clusters = env.Pool[*cluster]{Start: startCluster, Reset: func(ctx context.Context, c *cluster) error {
	return c.env.Cluster(env.App).Reset(ctx, c.installed)
}}

func (c *cluster) Stop(ctx context.Context) error { return c.env.Stop(ctx) }

func TestMain(m *testing.M) {
	flag.Parse()
	// What this package's tests want to see comes by each konnector's context.
	ctrl.SetLogger(logr.Discard())
	code := m.Run()
	if err := clusters.Stop(context.Background()); err != nil {
		log.Print(err)
		code = 1
	}
	os.Exit(code)
}

func startCluster(ctx context.Context) (*cluster, error) {
	e, err := env.Start(ctx, env.Options{Clusters: []string{env.App}})
	if err != nil {
		return nil, err
	}
	c := &cluster{env: e}
	if err := c.install(ctx); err != nil {
		return nil, fmt.Errorf("%w; %w", err, e.Stop(context.WithoutCancel(ctx)))
	}
	return c, nil
}

func (c *cluster) install(ctx context.Context) error {
	app := c.env.Cluster(env.App)
	c.admin = app.Config()
	c.admin.Wrap(whileKindsAreUnknown)
	var err error
	if c.client, err = client.New(c.admin, client.Options{Scheme: fakeapi.Scheme()}); err != nil {
		return err
	}
	if err = app.Apply(ctx, "kustomize/processes/konnector"); err != nil {
		return err
	}
	kubeconfig, err := app.KubeconfigFor(ctx, "gitbind-system", "konnector")
	if err != nil {
		return err
	}
	if c.konnector, err = clientcmd.BuildConfigFromFlags("", kubeconfig); err != nil {
		return err
	}
	c.konnector.QPS = -1
	if err := c.waitForPolicy(ctx); err != nil {
		return err
	}
	// A developer, who may do everything with claims.
	if kubeconfig, err = app.UserKubeconfig("alice", "developers"); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	config.Wrap(whileKindsAreUnknown)
	if c.alice, err = client.New(config, client.Options{Scheme: fakeapi.Scheme()}); err != nil {
		return err
	}
	if err := c.client.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "developers"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "developers"}},
	}); err != nil {
		return err
	}
	c.installed, err = app.State(ctx)
	return err
}

// waitForPolicy waits until the API server knows of the kind APIServiceBinding,
// which it does a few seconds later where a policy changes what is created.
func (c *cluster) waitForPolicy(ctx context.Context) error {
	probe := &v1alpha1.APIServiceBinding{ObjectMeta: metav1.ObjectMeta{Name: "probe.example.com"}, Spec: v1alpha1.APIServiceBindingSpec{Connection: "probe"}}
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		o := probe.DeepCopy()
		err := c.client.Create(ctx, o, client.DryRunAll)
		return err == nil && o.Annotations[v1alpha1.ChangedByAnnotation] != "", nil
	})
}

// whileKindsAreUnknown repeats what people write, as the API server asks them to: for
// some seconds after any definition has changed it may not know a kind that mutating
// policies are about.
func whileKindsAreUnknown(transport http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		for {
			response, err := transport.RoundTrip(r)
			if err != nil || response.StatusCode < http.StatusBadRequest || r.GetBody == nil {
				return response, err
			}
			body, err := io.ReadAll(response.Body)
			if err != nil {
				return nil, err
			}
			if err := response.Body.Close(); err != nil {
				return nil, err
			}
			if !bytes.Contains(body, []byte("There can be a delay between when CustomResourceDefinitions are created")) {
				response.Body = io.NopCloser(bytes.NewReader(body))
				return response, nil
			}
			select {
			case <-r.Context().Done():
				return nil, r.Context().Err()
			case <-time.After(100 * time.Millisecond):
			}
			if r.Body, err = r.GetBody(); err != nil {
				return nil, err
			}
		}
	})
}

// grant gives the konnector its rights on one API, as `kubectl gitbind bind`
// does.
func (c *cluster) grant(ctx context.Context, plural, group string) error {
	name := "gitbind:api:" + plural + "." + group
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{group}, Resources: []string{plural}, Verbs: []string{"get", "list", "watch", "create", "update", "patch", "delete"}},
			{APIGroups: []string{group}, Resources: []string{plural + "/status"}, Verbs: []string{"get", "update", "patch"}},
			// To take all of it back.
			{APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"}, ResourceNames: []string{plural + "." + group}, Verbs: []string{"get", "update", "delete"}},
			{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterroles"}, ResourceNames: []string{name}, Verbs: []string{"get", "update", "delete"}},
			{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterroles"}, ResourceNames: []string{name + ":view", name + ":edit"}, Verbs: []string{"get", "delete"}},
			{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterrolebindings"}, ResourceNames: []string{name}, Verbs: []string{"get", "update", "delete"}},
			{APIGroups: []string{"admissionregistration.k8s.io"}, Resources: []string{"mutatingadmissionpolicybindings"}, ResourceNames: []string{attribution.ForBinding(group, plural).Name}, Verbs: []string{"get", "delete"}},
			{APIGroups: []string{"admissionregistration.k8s.io"}, Resources: []string{"validatingadmissionpolicies"}, ResourceNames: bound.Names(plural + "." + group), Verbs: []string{"get", "update", "delete"}},
			{APIGroups: []string{"admissionregistration.k8s.io"}, Resources: []string{"validatingadmissionpolicybindings"}, ResourceNames: bound.Names(plural + "." + group), Verbs: []string{"get", "delete"}},
		},
	}
	if err := c.client.Create(ctx, role); err != nil {
		return err
	}
	return c.client.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "gitbind-system", Name: "konnector"}},
	})
}

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}
