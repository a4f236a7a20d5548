package onboarding

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/backend/internal/keyring"
	"gitbind.dev/backend/internal/refusal"
	"gitbind.dev/gitbridge/api/v1alpha1"
)

// decideAgain has a change decided again, on what is there by then, while it conflicts with what
// others write.
func decideAgain(decide func() error) error {
	err := retry.RetryOnConflict(keyring.Conflicts, decide)
	if apierrors.IsConflict(err) {
		return trouble(err)
	}
	return err
}

// patchAsRead changes an object as it was read. Where somebody else has changed it since, it
// returns the API server's conflict, for decideAgain.
func (s *Service) patchAsRead(ctx context.Context, read, changed client.Object) error {
	err := s.Client.Patch(ctx, changed, client.MergeFromWithOptions(read, client.MergeFromWithOptimisticLock{}), fieldOwner)
	if apierrors.IsConflict(err) {
		return err
	}
	if err != nil {
		return trouble(fmt.Errorf("patch %T %s: %w", changed, changed.GetName(), err))
	}
	return nil
}

// patchSpec changes a cluster's spec as it was read, unless somebody else has changed the spec
// since: who is second is told. The status does not count: others write it all the time.
func (s *Service) patchSpec(ctx context.Context, read, changed *v1alpha1.ClusterBinding) error {
	spec, uid, generation := changed.Spec, read.UID, read.Generation
	return decideAgain(func() error {
		conflict := s.patchAsRead(ctx, read, changed)
		if !apierrors.IsConflict(conflict) {
			return conflict
		}
		if err := s.Live.Get(ctx, client.ObjectKeyFromObject(changed), read); err != nil {
			return trouble(err)
		}
		if read.UID != uid || read.Generation != generation {
			return refusal.New(refusal.Conflict, "cluster %s was changed by somebody else at the same time: look at it, and try again", changed.Name)
		}
		read.DeepCopyInto(changed)
		changed.Spec = spec
		return conflict
	})
}
