package clusterbinding

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/breaker"
	"gitbind.dev/gitbridge/internal/session"
	"gitbind.dev/gitbridge/internal/tenant"
	"gitbind.dev/gitbridge/store"
)

// decide passes on what people decided: settings, and approvals in annotations.
func (r *Reconciler) decide(ctx context.Context, f *follower, b *v1alpha1.ClusterBinding) error {
	var errs []error
	f.session.Removals.SetLimits(breaker.LimitsOf(b.Spec.Removals))
	f.session.Stops.Suspend(session.SuspendedBy(b))
	// An approval counts once: one that stayed would count again when main, or
	// the control plane, is set back to where it was.
	var done []string
	commit := b.Annotations[v1alpha1.ApproveMainAnnotation]
	var err error
	if commit != "" || f.approved != "" {
		// It waits while a head of main is judged, and so for the Git host.
		err = f.session.Approve(ctx, store.Hash(commit))
		f.approved = commit
	}
	if err == nil && isCommit(commit) {
		var acted bool
		if acted, err = f.session.IsApproved(ctx, store.Hash(commit)); acted {
			done = append(done, v1alpha1.ApproveMainAnnotation)
		}
	}
	if err != nil {
		errs = append(errs, fmt.Errorf("approve main at %s: %w", commit, err))
	}
	if commit := b.Annotations[v1alpha1.ApproveRemovalsAnnotation]; isCommit(commit) {
		switch acted, err := f.session.ApproveRemovals(ctx, store.Hash(commit)); {
		case err != nil:
			errs = append(errs, fmt.Errorf("approve removals at %s: %w", commit, err))
		case acted:
			done = append(done, v1alpha1.ApproveRemovalsAnnotation)
		}
	}
	recreate := b.Annotations[v1alpha1.RecreateEmptyAnnotation]
	f.session.Recreation.Set(recreate)
	if f.session.Recreation.IsDone(recreate) {
		done = append(done, v1alpha1.RecreateEmptyAnnotation)
	}
	return errors.Join(append(errs, r.unset(ctx, b, done))...)
}

// isCommit is for what people write: a host need not be asked about all of it.
func isCommit(s string) bool { return commit.MatchString(s) }

var commit = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// +kubebuilder:rbac:groups=gitbind.dev,resources=clusterbindings,verbs=patch

// unset removes annotations that were acted on, unless they say something else
// by now.
func (r *Reconciler) unset(ctx context.Context, b *v1alpha1.ClusterBinding, annotations []string) error {
	if len(annotations) == 0 {
		return nil
	}
	values := map[string]any{}
	for _, a := range annotations {
		values[a] = nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": b.ResourceVersion, "annotations": values}})
	if err != nil {
		return err
	}
	if err := r.Client.Patch(ctx, b.DeepCopy(), client.RawPatch("application/merge-patch+json", patch), client.FieldOwner(tenant.FieldOwner)); err != nil {
		return fmt.Errorf("remove %s: %w", strings.Join(annotations, ", "), err)
	}
	return nil
}
