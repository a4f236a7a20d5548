// Package kustomize_test applies the manifests to real API servers.
package kustomize_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"gitbind.dev/test/env"
)

type cluster struct {
	*env.Cluster
	kubectl string
	client  kubernetes.Interface
}

func open(t *testing.T, e *env.Env, name string) cluster {
	t.Helper()
	c := e.Cluster(name)
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	return cluster{Cluster: c, kubectl: e.Kubectl, client: client}
}

// apply applies an overlay, twice: the second time must be as good as the first.
func (c cluster) apply(t *testing.T, overlay string) {
	t.Helper()
	for range 2 {
		cmd := exec.CommandContext(t.Context(), c.kubectl, "--kubeconfig="+c.Kubeconfig, "apply", "--server-side", "-k", overlay)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", overlay, err, out)
		}
	}
}

// podsAreAllowed creates, as a dry run, the pod of each Deployment in our
// namespace, whose pod security level is "restricted".
func (c cluster) podsAreAllowed(t *testing.T, want int) {
	t.Helper()
	deployments, err := c.client.AppsV1().Deployments("gitbind-system").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(deployments.Items) != want {
		t.Errorf("%d Deployments, want %d", len(deployments.Items), want)
	}
	for _, d := range deployments.Items {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "probe", Labels: d.Spec.Template.Labels}, Spec: d.Spec.Template.Spec}
		if err := c.eventually(t, func(ctx context.Context) error {
			_, err := c.client.CoreV1().Pods("gitbind-system").Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}); err != nil {
			t.Errorf("the pod of %s is refused: %v", d.Name, err)
		}
		args := d.Spec.Template.Spec.Containers[0].Args
		alone := d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType && *d.Spec.Replicas == 1
		if elects := slices.Contains(args, "--lease-identity=$(POD_NAME)"); !elects && !alone {
			t.Errorf("two of %s could work at once", d.Name)
		}
	}
}

func (c cluster) eventually(t *testing.T, try func(context.Context) error) error {
	t.Helper()
	var invalid error
	err := env.Await(time.Minute, func() error {
		err := try(t.Context())
		if apierrors.IsInvalid(err) {
			invalid = err
			return nil
		}
		return err
	})
	return cmp.Or(invalid, err)
}

func TestManifests(t *testing.T) {
	t.Parallel()
	e := env.StartForTest(t, env.Options{})
	app, control := open(t, e, env.App), open(t, e, env.Control)

	t.Run("app cluster", func(t *testing.T) {
		app.apply(t, "processes/konnector")
		app.podsAreAllowed(t, 0)
		app.apply(t, "konnector")
		app.podsAreAllowed(t, 1)
	})
	t.Run("control plane", func(t *testing.T) {
		control.apply(t, "processes/control-plane")
		control.podsAreAllowed(t, 0)
		control.apply(t, "control-plane")
		control.podsAreAllowed(t, 2)
	})
	t.Run("components", control.components)
	t.Run("priority", func(t *testing.T) {
		control.apply(t, overlay(t, "", "priority"))
		control.podsAreAllowed(t, 2)
	})
	t.Run("H10_only the bridge and the ingress reach the backend", func(t *testing.T) {
		policies, err := control.client.NetworkingV1().NetworkPolicies("gitbind-system").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var closed, open []string
		for _, p := range policies.Items {
			if len(p.Spec.Ingress) == 0 && len(p.Spec.PodSelector.MatchLabels) == 0 {
				closed = append(closed, p.Name)
			}
			for _, rule := range p.Spec.Ingress {
				for _, port := range rule.Ports {
					if len(rule.From) == 0 && port.Port.StrVal != "health" {
						open = append(open, p.Name)
					}
				}
			}
		}
		if len(closed) != 1 || len(open) > 0 {
			t.Errorf("closed by %v, open to all by %v", closed, open)
		}
	})
	t.Run("H4_no pod fills the disk of its node", func(t *testing.T) {
		app.bounded(t)
		control.bounded(t)
	})
	t.Run("an offered API becomes a right of backend and bridge", func(t *testing.T) {
		offer := &rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: "offer-databases", Labels: map[string]string{"gitbind.dev/offered": "true"}},
			Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"example.com"}, Resources: []string{"databases"}, Verbs: []string{"get"}}},
		}
		if _, err := control.client.RbacV1().ClusterRoles().Create(t.Context(), offer, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"gitbind-backend", "gitbind-gitbridge"} {
			if err := control.eventually(t, func(ctx context.Context) error { return control.may(ctx, name, "get", "example.com", "databases") }); err != nil {
				t.Error(err)
			}
		}
		control.apply(t, "control-plane")
		if err := control.may(t.Context(), "gitbind-backend", "get", "example.com", "databases"); err != nil {
			t.Errorf("applying again took it away: %v", err)
		}
	})
	t.Run("a Lease waits for no other request", func(t *testing.T) {
		app.leaseGoesFirst(t, "konnector", "gitbind-konnector-lease")
		control.leaseGoesFirst(t, "gitbind-gitbridge", "gitbind-gitbridge-lease")
	})
	t.Run("H10_the rights on Secrets make nobody somebody else", control.secrets)
	t.Run("H10_the backend takes rights from tenants alone", control.rightsTakenAway)
	t.Run("H10_the konnector hands no right on", app.roles)
	t.Run("nobody is an administrator", func(t *testing.T) {
		for _, c := range []struct {
			cluster cluster
			account string
		}{{app, "konnector"}, {control, "gitbind-backend"}, {control, "gitbind-gitbridge"}} {
			for _, right := range [][3]string{
				{"*", "*", "*"}, {"create", "", "pods"}, {"list", "", "secrets"}, {"impersonate", "", "users"},
				{"escalate", "rbac.authorization.k8s.io", "clusterroles"}, {"bind", "rbac.authorization.k8s.io", "clusterroles"},
				{"create", "admissionregistration.k8s.io", "mutatingadmissionpolicybindings"},
			} {
				if c.cluster.may(t.Context(), c.account, right[0], right[1], right[2]) == nil {
					t.Errorf("%s may %v", c.account, right)
				}
			}
		}
	})
}

// leaseGoesFirst fails the test if the API server handles an account's requests for Leases by
// another FlowSchema than the named one.
func (c cluster) leaseGoesFirst(t *testing.T, account, flowSchema string) {
	t.Helper()
	schema, err := c.client.FlowcontrolV1().FlowSchemas().Get(t.Context(), flowSchema, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(c.as(account))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.eventually(t, func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.Config().Host+"/apis/coordination.k8s.io/v1/namespaces/gitbind-system/leases/any", nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if got := response.Header.Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID); got != string(schema.UID) {
			return fmt.Errorf("requests of %s for Leases are handled by FlowSchema %q, want %s (%s)", account, got, schema.UID, flowSchema)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// as is for requests as a ServiceAccount of ours.
func (c cluster) as(account string) *rest.Config {
	config := c.Config()
	config.Impersonate.UserName = "system:serviceaccount:gitbind-system:" + account
	config.Impersonate.Groups = []string{"system:serviceaccounts", "system:authenticated"}
	return config
}

// may asks the API server whether a ServiceAccount of ours has a right in the
// whole cluster.
func (c cluster) may(ctx context.Context, account, verb, group, resource string) error {
	client, err := kubernetes.NewForConfig(c.as(account))
	if err != nil {
		return err
	}
	review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, selfReview(verb, group, resource), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if !review.Status.Allowed {
		return fmt.Errorf("%s may not %s %s.%s: %s", account, verb, resource, group, review.Status.Reason)
	}
	return nil
}

func selfReview(verb, group, resource string) *authorizationv1.SelfSubjectAccessReview {
	return &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: group, Resource: resource},
	}}
}

// bounded fails the test for a volume of a Deployment that can fill a node's disk.
func (c cluster) bounded(t *testing.T) {
	t.Helper()
	deployments, err := c.client.AppsV1().Deployments("gitbind-system").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range deployments.Items {
		for _, v := range d.Spec.Template.Spec.Volumes {
			if v.EmptyDir != nil && v.EmptyDir.SizeLimit == nil {
				t.Errorf("volume %s of %s has no limit", v.Name, d.Name)
			}
		}
	}
}
