package bind

import (
	"context"
	"fmt"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/konnector/internal/cli/appcluster"
)

// keepTries is how often an object is applied that goes, or changes, meanwhile.
const keepTries = 5

// applyForGood applies an object that stays. The konnector gives the rights on an
// API that is unbound to the APIServiceBinding, and the garbage collector takes
// them after it: what it has not taken yet would be found there, and be gone
// later.
func applyForGood(ctx context.Context, c *appcluster.Cluster, o client.Object) (line string, err error) {
	for range keepTries {
		if line, err = applySoon(ctx, c, o); err != nil || !isRights(o) {
			return line, err
		}
		err = keep(ctx, c, o)
		if !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return line, err
		}
	}
	return "", err
}

// applySoon applies an object also where the API server has yet to learn of the
// kind APIServiceBinding: it looks every few seconds, and until then refuses what
// a MutatingAdmissionPolicy is about.
func applySoon(ctx context.Context, c *appcluster.Cluster, o client.Object) (line string, err error) {
	var last error
	err = wait.PollUntilContextTimeout(ctx, 250*time.Millisecond, policyWithin, true, func(ctx context.Context) (bool, error) {
		line, last = c.Apply(ctx, o)
		return !apierrors.IsServiceUnavailable(last), nil
	})
	if last != nil {
		return "", last
	}
	return line, err
}

// keep takes from an object the APIServiceBindings that own it. Only ones that
// are gone, or go, do.
func keep(ctx context.Context, c *appcluster.Cluster, o client.Object) error {
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(o.GetObjectKind().GroupVersionKind())
	if err := c.Get(ctx, client.ObjectKeyFromObject(o), live); err != nil {
		return fmt.Errorf("read %s: %w", o.GetName(), err)
	}
	before := live.DeepCopy()
	live.OwnerReferences = v1alpha1.OwnersBesideBindings(live.OwnerReferences)
	if len(live.OwnerReferences) == len(before.OwnerReferences) {
		return nil
	}
	// With the resourceVersion, so that it is the object that was looked at.
	if err := c.Patch(ctx, live, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("keep %s: %w", o.GetName(), err)
	}
	return nil
}

func isRights(o client.Object) bool {
	switch o.(type) {
	case *rbacv1.ClusterRole, *rbacv1.ClusterRoleBinding:
		return true
	}
	return false
}
