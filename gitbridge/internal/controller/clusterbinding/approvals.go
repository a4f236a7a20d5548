package clusterbinding

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
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
	rest := map[string]any{}
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
			rest[v1alpha1.ApproveMainAnnotation] = nil
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
			rest[v1alpha1.ApproveRemovalsAnnotation] = nil
		}
	}
	recreate := b.Annotations[v1alpha1.RecreateEmptyAnnotation]
	f.session.Recreation.Set(recreate)
	switch left := f.session.Recreation.Rest(); left {
	case recreate:
	case "":
		rest[v1alpha1.RecreateEmptyAnnotation] = nil
	default:
		rest[v1alpha1.RecreateEmptyAnnotation] = left
	}
	return errors.Join(append(errs, r.annotate(ctx, b, rest))...)
}

// isCommit is for what people write: a host need not be asked about all of it.
func isCommit(s string) bool { return commit.MatchString(s) }

var commit = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// +kubebuilder:rbac:groups=gitbind.dev,resources=clusterbindings,verbs=patch

// annotate writes what is left of approvals that were acted on, nil for nothing, unless they say
// something else by now.
func (r *Reconciler) annotate(ctx context.Context, b *v1alpha1.ClusterBinding, rest map[string]any) error {
	if len(rest) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": b.ResourceVersion, "annotations": rest}})
	if err != nil {
		return err
	}
	if err := r.Client.Patch(ctx, b.DeepCopy(), client.RawPatch("application/merge-patch+json", patch), client.FieldOwner(tenant.FieldOwner)); err != nil {
		return fmt.Errorf("write the rest of %s: %w", strings.Join(slices.Sorted(maps.Keys(rest)), ", "), err)
	}
	return nil
}
