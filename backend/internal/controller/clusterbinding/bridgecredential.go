package clusterbinding

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/backend/internal/credential"
	"gitbind.dev/gitbridge/api/v1alpha1"
)

const (
	// bridgeLifetime is how long a bridge's credential counts, and bridgeLeft how
	// much of that is left when it is renewed.
	bridgeLifetime = 90 * 24 * time.Hour
	bridgeLeft     = bridgeLifetime / 3
	// bridgeOverlap is how long the one before a renewal counts beside the new one.
	bridgeOverlap = 10 * time.Minute
	// bridgeLook is how often to see whether one is to be renewed.
	bridgeLook = 12 * time.Hour
)

// bridgeCredential makes a token where there is none, another one when an
// operator asks for it, and the next one in time.
func (r *Reconciler) bridgeCredential(ctx context.Context, cb *v1alpha1.ClusterBinding) error {
	var s corev1.Secret
	key := client.ObjectKey{Namespace: v1alpha1.TenantNamespace(cb.Name), Name: v1alpha1.BridgeSecret}
	if err := r.Live.Get(ctx, key, &s); client.IgnoreNotFound(err) != nil {
		return err
	}
	now, token := r.Now(), credential.New(credential.BridgePrefix)
	if len(s.Data["password"]) == 0 {
		return r.Client.Apply(ctx, bridgeSecret(cb, token, now.Add(bridgeLifetime)), fieldOwner, client.ForceOwnership)
	}
	before := credential.ReadBridge(s.Data)
	_, asked := s.Annotations[v1alpha1.RotateAnnotation]
	if !asked && now.Before(before.Expires.Add(-bridgeLeft)) {
		return nil
	}
	was := s.DeepCopy()
	delete(s.Annotations, v1alpha1.RotateAnnotation)
	next := credential.Bridge{Password: token, Expires: now.Add(bridgeLifetime)}
	if !asked {
		next.Previous, next.PreviousExpires = before.Password, now.Add(bridgeOverlap)
	}
	next.WriteTo(s.Data)
	return r.Client.Patch(ctx, &s, client.MergeFromWithOptions(was, client.MergeFromWithOptimisticLock{}), fieldOwner)
}
