package connect

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/terminal"
	"gitbind.dev/test/fakeapi"
)

// A new credential changes no generation, so that what a konnector said of the one before,
// which has ended, still counts.
func TestAKonnectorThatWasReadyBeforeMustUseTheNewCredential(t *testing.T) {
	was, is := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 4, 1, 0, 0, 0, 5, time.UTC)
	connection := func(ready metav1.ConditionStatus, expires time.Time) *v1alpha1.Connection {
		c := &v1alpha1.Connection{ObjectMeta: metav1.ObjectMeta{Name: "default", Generation: 1}}
		c.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: ready, Reason: "R", ObservedGeneration: 1}}
		if !expires.IsZero() {
			c.Status.CredentialExpires = &metav1.Time{Time: expires}
		}
		return c
	}
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
	for _, c := range []struct {
		what        string
		before, now *v1alpha1.Connection
		want        bool
	}{
		{"as it was before", connection(yes, was), connection(yes, was), false},
		{"with the new one", connection(yes, was), connection(yes, is.Truncate(time.Second)), true},
		{"with the next one already", connection(yes, was), connection(yes, is.Add(time.Hour)), true},
		{"with the new one, not ready yet", connection(yes, was), connection(no, is.Truncate(time.Second)), false},
		{"the backend was not asked yet", connection(yes, was), connection(yes, time.Time{}), false},
		{"connected for the first time", nil, connection(yes, time.Time{}), true},
		{"connected for the first time, not ready yet", nil, connection(no, time.Time{}), false},
		{"an older konnector, which does not say it", connection(yes, time.Time{}), connection(yes, time.Time{}), true},
	} {
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(c.now)
		if err != nil {
			t.Fatal(err)
		}
		got, state := readyWith(Awaited(c.before, &restapi.Credential{Expires: is}))(&unstructured.Unstructured{Object: object})
		if got != c.want {
			t.Errorf("%s: %t, %v", c.what, got, state)
		}
	}
}

// The one of before takes up the new credential.
func TestAKonnectorThatIsNotRolledOutIsNotConnected(t *testing.T) {
	t.Parallel()
	byName := func(o client.Object) []string { return []string{o.GetName()} }
	const rolledOut, image = "  deployment/konnector in gitbind-system rolled out\n", "registry.example.com/gitbind-konnector:v2"
	const says = "The cluster is connected, and the konnector before it goes on until pods of the image " + image + " start. See: kubectl describe pods -n gitbind-system"
	for _, c := range []struct {
		what         string
		noDeployment bool
		status       *appsv1.DeploymentStatus
		timeout      time.Duration
		said         bool
		err          string
	}{
		{"a new pod does not start", false, &appsv1.DeploymentStatus{Replicas: 3, UpdatedReplicas: 1, AvailableReplicas: 2}, time.Second, false,
			"Deployment konnector is not ready after 1s: 1 of the konnector's 3 pods are new (RollingOut). " + says},
		{"no new pod may be made", false, &appsv1.DeploymentStatus{Replicas: 2, AvailableReplicas: 2, Conditions: []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: "exceeded quota"},
		}}, time.Second, false, "Deployment konnector is not ready after 1s: exceeded quota (FailedCreate). " + says},
		{"no pod is up", false, &appsv1.DeploymentStatus{Replicas: 2, UpdatedReplicas: 2, UnavailableReplicas: 2}, time.Second, false,
			"none of the konnector's 2 pods is available (Unavailable). The cluster is connected. See: kubectl describe pods -n gitbind-system"},
		{"one that somebody else deploys", true, &appsv1.DeploymentStatus{Replicas: 3, UpdatedReplicas: 1, AvailableReplicas: 2}, time.Second, false, says},
		{"it is rolled out", false, &appsv1.DeploymentStatus{Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 2}, time.Minute, true, ""},
		{"one that somebody else deploys is rolled out", true, &appsv1.DeploymentStatus{Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 2}, time.Minute, true, ""},
		{"it runs elsewhere", true, nil, time.Minute, false, ""},
		{"nothing is waited for", false, &appsv1.DeploymentStatus{Replicas: 3, UpdatedReplicas: 1, AvailableReplicas: 2}, 0, false, ""},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			expires := time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC)
			connection := &v1alpha1.Connection{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
			connection.Status.CredentialExpires = &metav1.Time{Time: expires}
			connection.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Connected"}}
			deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: appcluster.SystemNamespace, Name: "konnector"}}
			deployment.Spec.Template.Spec.Containers = []corev1.Container{{Image: image}}
			b := fakeapi.Builder().WithIndex(connection, metav1.ObjectNameField, byName).WithIndex(deployment, metav1.ObjectNameField, byName).WithObjects(connection)
			if c.status != nil {
				deployment.Status = *c.status
				b = b.WithObjects(deployment)
			}
			var out bytes.Buffer
			in := inputOf(&appcluster.Cluster{WithWatch: fakeapi.New(b, interceptor.Funcs{Watch: noWatchList})})
			in.Name, in.Timeout, in.Terminal, in.Install.NoDeployment = "default", c.timeout, terminal.Open(nil, &out), c.noDeployment
			err := connecting{Input: in, before: connection}.wait(t.Context(), &restapi.Credential{Expires: expires})
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("%v, want %q", err, c.err)
			}
			if strings.HasSuffix(out.String(), rolledOut) != c.said {
				t.Errorf("it says\n%s", out.String())
			}
		})
	}
}

// noWatchList has a client list before it watches: the fake one sends no bookmark.
func noWatchList(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
	if all := (&client.ListOptions{}).ApplyOptions(opts); all.Raw != nil && all.Raw.SendInitialEvents != nil {
		return nil, apierrors.NewInvalid(list.GetObjectKind().GroupVersionKind().GroupKind(), "", nil)
	}
	return c.Watch(ctx, list, opts...)
}
