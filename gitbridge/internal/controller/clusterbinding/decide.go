package clusterbinding

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/backend/api/v1alpha1"
	"gitbind.dev/gitbridge/breaker"
	"gitbind.dev/gitbridge/internal/tenant"
	"gitbind.dev/gitbridge/store"
)

// decide passes on what people decided: settings, and approvals in annotations.
func (r *Reconciler) decide(ctx context.Context, f *follower, b *v1alpha1.ClusterBinding) error {
	var errs []error
	f.session.SetLimits(limits(b))
	f.session.Suspend(b.Spec.Suspended)
	if commit := b.Annotations[v1alpha1.ApproveMainAnnotation]; commit != "" {
		if err := f.session.Approve(ctx, store.Hash(commit)); err != nil {
			errs = append(errs, fmt.Errorf("approve main at %s: %w", commit, err))
		}
	}
	if commit := b.Annotations[v1alpha1.ApproveRemovalsAnnotation]; isCommit(commit) {
		if err := f.session.ApproveRemovals(ctx, store.Hash(commit)); err != nil {
			errs = append(errs, fmt.Errorf("approve removals at %s: %w", commit, err))
		}
	}
	recreate := b.Annotations[v1alpha1.RecreateEmptyAnnotation]
	f.session.Recreate(recreate)
	if f.session.IsRecreated(recreate) {
		errs = append(errs, r.unset(ctx, b, v1alpha1.RecreateEmptyAnnotation))
	}
	return errors.Join(errs...)
}

// isCommit is for what people write: a host need not be asked about all of it.
func isCommit(s string) bool { return commit.MatchString(s) }

var commit = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// limits are those of a ClusterBinding, with the default for what it leaves out.
func limits(b *v1alpha1.ClusterBinding) breaker.Limits {
	l := breaker.Default()
	if set := b.Spec.Removals; set != nil {
		if set.Most != nil {
			l.Most = int(*set.Most)
		}
		if set.Window != nil {
			l.Window = cmp.Or(set.Window.Duration, l.Window)
		}
	}
	return l
}

// +kubebuilder:rbac:groups=gitbind.dev,resources=clusterbindings,verbs=patch

// unset removes an annotation that was acted on, unless it says something else
// by now.
func (r *Reconciler) unset(ctx context.Context, b *v1alpha1.ClusterBinding, annotation string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": b.ResourceVersion, "annotations": map[string]any{annotation: nil},
	}})
	if err != nil {
		return err
	}
	if err := r.Client.Patch(ctx, b.DeepCopy(), client.RawPatch("application/merge-patch+json", patch), client.FieldOwner(tenant.FieldOwner)); err != nil {
		return fmt.Errorf("remove annotation %s: %w", annotation, err)
	}
	return nil
}
