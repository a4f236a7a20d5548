package connect

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/command"
	"gitbind.dev/konnector/internal/cli/progress"
)

// Awaited is what a konnector says of a new credential when it uses that, given the
// Connection as it was; nil where none says such a thing: there was no konnector yet, or an
// older one.
func Awaited(before *v1alpha1.Connection, credential *restapi.Credential) *metav1.Time {
	if before == nil || before.Status.CredentialExpires == nil {
		return nil
	}
	return &metav1.Time{Time: credential.Expires.Truncate(time.Second)}
}

// WaitReady waits until a Connection is ready, and says so. It may have been before, with a
// konnector that does not run any more: if expires is not nil, it must use that credential.
func WaitReady(ctx context.Context, call command.Call, name string, expires *metav1.Time, timeout time.Duration) error {
	p := progress.Begin(call.Terminal, "waiting for the konnector")
	defer p.End()
	err := call.Cluster.Wait(ctx, v1alpha1.GroupVersion.WithKind("Connection"), name, readyWith(expires), timeout, p.Say)
	var late *appcluster.NotReady
	switch {
	case errors.As(err, &late) && late.Condition == nil:
		return fmt.Errorf("%w: no konnector looks after it", err)
	case err == nil:
		p.Say("connection/" + name + " ready")
	}
	return err
}

// waitRolledOut waits until the cluster's Deployment of the konnector is rolled out, and says so,
// if there is one. Until then the one before it goes on, by which the Connection is ready.
func waitRolledOut(ctx context.Context, call command.Call, timeout time.Duration) error {
	p := progress.Begin(call.Terminal, "waiting until the konnector is rolled out")
	defer p.End()
	var now *appsv1.Deployment
	watched := appcluster.Watched{
		Kind: appsv1.SchemeGroupVersion.WithKind("Deployment"), Key: appcluster.KonnectorKey, Tell: p.Say,
	}
	err := call.Cluster.Until(ctx, watched, timeout, func(u *unstructured.Unstructured) (bool, *metav1.Condition) {
		if now = nil; u == nil {
			return true, nil
		}
		now = &appsv1.Deployment{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, now); err != nil {
			return false, nil
		}
		return appcluster.IsRolledOut(now), rollout(now)
	})
	var late *appcluster.NotReady
	switch {
	case errors.As(err, &late) && now != nil:
		goesOn := ", and the konnector before it goes on until pods of the image " + appcluster.Image(now) + " start"
		if appcluster.IsReplaced(now) {
			goesOn = ""
		}
		return fmt.Errorf("%w. The cluster is connected%s. See: kubectl describe pods -n %s", err, goesOn, appcluster.SystemNamespace)
	case err == nil && now != nil:
		p.Say("deployment/konnector in " + appcluster.SystemNamespace + " rolled out")
	}
	return err
}

// rollout says what is missing until a Deployment is rolled out.
func rollout(d *appsv1.Deployment) *metav1.Condition {
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
			return &metav1.Condition{Reason: c.Reason, Message: c.Message}
		}
	}
	if appcluster.IsReplaced(d) {
		return &metav1.Condition{Reason: "Unavailable", Message: fmt.Sprintf("none of the konnector's %d pods is available", d.Status.Replicas)}
	}
	return &metav1.Condition{Reason: "RollingOut", Message: fmt.Sprintf("%d of the konnector's %d pods are new", d.Status.UpdatedReplicas, d.Status.Replicas)}
}

// readyWith is for a Connection that is ready with the credential that expires then; nil for
// any.
func readyWith(expires *metav1.Time) appcluster.Is {
	return func(u *unstructured.Unstructured) (bool, *metav1.Condition) {
		is, ready := appcluster.IsTrue(v1alpha1.ConditionReady)(u)
		if !is || expires == nil {
			return is, ready
		}
		var now v1alpha1.Connection
		err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &now)
		if counts := now.Status.CredentialExpires; err == nil && counts != nil && !counts.Before(expires) {
			return true, nil // It may have got the next one since.
		}
		if c := appcluster.Condition(u, v1alpha1.ConditionCredential); c != nil && c.Status != metav1.ConditionTrue {
			return false, c
		}
		return false, nil
	}
}
