package clusterbinding

import (
	"context"
	"errors"
	"slices"
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
	now, url := r.Now(), r.Host.URL(cb.Name)
	next := credential.Bridge{Password: credential.New(credential.BridgePrefix), Expires: now.Add(bridgeLifetime), RepositoryURL: url}
	if len(s.Data["password"]) == 0 {
		if err := r.forGit(ctx, cb, &next); err != nil {
			return err
		}
		return r.Client.Apply(ctx, bridgeSecret(cb, next), fieldOwner, client.ForceOwnership)
	}
	before := credential.ReadBridge(s.Data)
	_, asked := s.Annotations[v1alpha1.RotateAnnotation]
	elsewhere := r.moves(cb)
	if before.RepositoryURL != "" {
		elsewhere = before.RepositoryURL != url
	}
	before.RepositoryURL = url
	lacking := r.Accounts != nil && (before.GitPassword == "" || elsewhere)
	switch {
	case asked, lacking, !now.Before(before.Expires.Add(-bridgeLeft)):
		if !asked {
			next.Previous, next.PreviousExpires = before.Password, now.Add(bridgeOverlap)
		}
	case r.Accounts == nil && (before.GitPassword != "" || elsewhere):
		next = before // of the host that had the repository before
		next.GitUsername, next.GitPassword, next.GitExpires, next.GitRenewAfter = "", "", time.Time{}, time.Time{}
	case r.Accounts != nil && !before.GitExpires.IsZero() && !now.Before(before.GitRenewAfter):
		next = before // the host ends what it gave sooner than that
	default:
		return nil
	}
	if err := r.forGit(ctx, cb, &next); err != nil {
		return err
	}
	was := s.DeepCopy()
	delete(s.Annotations, v1alpha1.RotateAnnotation)
	next.WriteTo(s.Data)
	return r.Client.Patch(ctx, &s, client.MergeFromWithOptions(was, client.MergeFromWithOptimisticLock{}), fieldOwner)
}

// lookAgain is how long the bridge's credential can be left alone: what a Git host of its own
// gave may expire before the rest.
func (r *Reconciler) lookAgain(ctx context.Context, cb *v1alpha1.ClusterBinding) (time.Duration, error) {
	if r.Accounts == nil {
		return bridgeLook, nil
	}
	var s corev1.Secret
	if err := r.Live.Get(ctx, client.ObjectKey{Namespace: v1alpha1.TenantNamespace(cb.Name), Name: v1alpha1.BridgeSecret}, &s); err != nil {
		return bridgeLook, client.IgnoreNotFound(err)
	}
	b := credential.ReadBridge(s.Data)
	if b.GitExpires.IsZero() {
		return bridgeLook, nil
	}
	return min(bridgeLook, max(b.GitRenewAfter.Sub(r.Now()), time.Second)), nil
}

// forGit adds what opens the repository, on a Git host of its own.
func (r *Reconciler) forGit(ctx context.Context, cb *v1alpha1.ClusterBinding, b *credential.Bridge) error {
	if r.Accounts == nil {
		return nil
	}
	undo, err := r.issues.May(cb.Name, credential.BridgeUser, r.Now())
	if err != nil {
		return err
	}
	git, err := r.Accounts.Issue(ctx, cb.Name, credential.BridgeUser, credential.Hash(b.Password))
	if err != nil {
		undo() // The work queue has its own back-off.
	}
	b.GitUsername, b.GitPassword, b.GitExpires, b.GitRenewAfter = git.Username, git.Password, git.Expires, git.RenewAfter
	return err
}

// endCredentials ends what opened the repository on a Git host of its own and counts no
// longer: each has for a name the hash of what opens the backend. Without all, the host is asked
// of an agent only if others count than the last time.
func (r *Reconciler) endCredentials(ctx context.Context, cb *v1alpha1.ClusterBinding, all bool) error {
	if r.Accounts == nil || !v1alpha1.ValidClusterID(cb.Name) {
		return nil
	}
	end := func(agent, secret string, of func(map[string][]byte) []string) error {
		counting := func(ctx context.Context) ([]string, error) {
			var s corev1.Secret
			err := r.Live.Get(ctx, client.ObjectKey{Namespace: v1alpha1.TenantNamespace(cb.Name), Name: secret}, &s)
			return of(s.Data), client.IgnoreNotFound(err)
		}
		names, err := counting(ctx)
		if err != nil {
			return err
		}
		// Noted before, so that a host that fails is asked again only with all.
		if changed := r.noteCounting(cb.Name, agent, names); !changed && !all {
			return nil
		}
		// The host reads it again when it knows what there is: what was issued meanwhile stays.
		return r.Accounts.Retain(ctx, cb.Name, agent, counting)
	}
	return errors.Join(
		end(credential.KonnectorUser, v1alpha1.KonnectorSecret, func(data map[string][]byte) []string {
			return credential.ReadRecord(data).Counting(r.Now())
		}),
		end(credential.BridgeUser, v1alpha1.BridgeSecret, func(data map[string][]byte) []string {
			return credential.ReadBridge(data).Counting(r.Now())
		}),
	)
}

// noteCounting notes which credentials of an agent count, and reports whether others did before. Of
// none, nothing is kept: the cluster may be gone.
func (r *Reconciler) noteCounting(cluster, agent string, names []string) (changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := [2]string{cluster, agent}
	before := r.counting[key]
	if len(names) == 0 {
		delete(r.counting, key)
	} else {
		if r.counting == nil {
			r.counting = map[[2]string][]string{}
		}
		r.counting[key] = names
	}
	return !slices.Equal(before, names)
}
