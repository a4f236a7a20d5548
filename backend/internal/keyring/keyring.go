// Package keyring issues konnectors' credentials, and renews, replaces and
// revokes them. What is kept of them are hashes, in one Secret of each cluster.
// Each change is made on the Secret as it was read, so that of two at the same
// time the second one decides again; none is half done when the process ends.
//
// It lets nobody in: that is package access.
//
// +kubebuilder:rbac:groups="",resources=secrets,resourceNames=gitbind-konnector,verbs=get;create;patch
package keyring

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/backend/internal/credential"
	"gitbind.dev/backend/internal/refusal"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
)

// Keyring changes the credentials of all clusters.
type Keyring struct {
	// Client writes, Live reads from the API server.
	Client client.Client
	Live   client.Reader
	// Lifetime is how long a credential counts.
	Lifetime time.Duration
	// Ended is told the hashes of tokens that count no longer. Requests that are
	// under way with them are to end if cut, and may come to their end if not.
	Ended func(cluster string, hashes []string, cut bool)
	Now   func() time.Time
}

// Conflicts is how often, and how soon, a change is decided again when somebody else was first:
// when many change one object at the same time, one of them gets through each time.
var Conflicts = wait.Backoff{Steps: 25, Duration: 10 * time.Millisecond, Factor: 1.2, Jitter: 1}

const fieldOwner = client.FieldOwner("gitbind-backend")

// Issue gives a cluster's konnector a credential in the place of all that it had.
func (k *Keyring) Issue(ctx context.Context, cluster string) (*restapi.Credential, error) {
	cred, hash := k.new()
	_, err := k.change(ctx, cluster, true, func(credential.Record) credential.Record {
		return credential.Record{Hash: hash, Expires: cred.Expires}
	})
	if err != nil {
		return nil, err
	}
	return cred, nil
}

// Prepare gives a credential that opens nothing, and ends none but one that was prepared before
// it: Replace has it take their place, once a Git host of its own has given its part.
func (k *Keyring) Prepare(ctx context.Context, cluster string) (*restapi.Credential, error) {
	cred, hash := k.new()
	_, err := k.change(ctx, cluster, true, func(r credential.Record) credential.Record { return r.Prepared(hash, cred.Expires) })
	if err != nil {
		return nil, err
	}
	return cred, nil
}

// Replace has the prepared credential with this hash take the place of all that a cluster's
// konnector had. It reports false when that was revoked, or replaced, since.
func (k *Keyring) Replace(ctx context.Context, cluster, hash string) (bool, error) {
	after, err := k.change(ctx, cluster, true, func(r credential.Record) credential.Record {
		if verdict, _ := r.Judge(hash, k.Now()); verdict == credential.Prepared {
			return r.Replaced()
		}
		return r
	})
	verdict, _ := after.Judge(hash, k.Now())
	return verdict == credential.Current, err
}

// Renew gives a credential that takes the place of the one before it when it is
// used for the first time: a caller that does not get the answer asks again. A next
// one that was never used ends.
//
// It is for who shows a token with the hash by, and refuses if that has ended
// since it was shown: what was revoked brings nothing back.
func (k *Keyring) Renew(ctx context.Context, cluster, by string) (*restapi.Credential, error) {
	// Its first use may not be written yet. It must not be the next one any more
	// when another takes that place.
	counts, err := k.Promote(ctx, cluster, by)
	if err != nil {
		return nil, err
	}
	cred, hash := k.new()
	if counts {
		_, err = k.change(ctx, cluster, true, func(r credential.Record) credential.Record {
			verdict, _ := r.Judge(by, k.Now())
			if counts = verdict == credential.Current; !counts {
				return r
			}
			return r.Offered(hash, cred.Expires)
		})
	}
	switch {
	case err != nil:
		return nil, err
	case !counts:
		return nil, refusal.New(refusal.Unauthenticated, "the credential has ended: connect the cluster again with kubectl gitbind connect")
	}
	return cred, nil
}

// Promote ends the credential before the one with this hash, as that was used
// for the first time. It reports false when that is not the cluster's any more.
func (k *Keyring) Promote(ctx context.Context, cluster, hash string) (bool, error) {
	after, err := k.change(ctx, cluster, false, func(r credential.Record) credential.Record {
		if r.NextHash == hash {
			return r.Promoted()
		}
		return r // somebody else was first
	})
	verdict, _ := after.Judge(hash, k.Now())
	return verdict == credential.Current, err
}

// Counts tells whether the credential with this hash is the cluster's, or the next one that was
// not used yet, or is prepared.
func (k *Keyring) Counts(ctx context.Context, cluster, hash string) (bool, error) {
	var s corev1.Secret
	key := client.ObjectKey{Namespace: v1alpha1.TenantNamespace(cluster), Name: v1alpha1.KonnectorSecret}
	if err := k.Live.Get(ctx, key, &s); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	verdict, _ := credential.ReadRecord(s.Data).Judge(hash, k.Now())
	return verdict == credential.Current || verdict == credential.Next || verdict == credential.Prepared, nil
}

// Revoke ends all credentials of a cluster's konnector.
func (k *Keyring) Revoke(ctx context.Context, cluster string) error {
	_, err := k.change(ctx, cluster, true, func(credential.Record) credential.Record { return credential.Record{} })
	return err
}

// RenewAfter is when a credential is to be renewed: when a third of its life is
// left.
func (k *Keyring) RenewAfter(expires time.Time) time.Time {
	return expires.Add(-k.Lifetime / 3).UTC().Truncate(time.Second)
}

func (k *Keyring) new() (cred *restapi.Credential, hash string) {
	token := credential.New(credential.KonnectorPrefix)
	expires := k.Now().Add(k.Lifetime).UTC().Truncate(time.Second)
	return &restapi.Credential{
		Username: credential.KonnectorUser, Password: token, Expires: expires, RenewAfter: k.RenewAfter(expires),
	}, credential.Hash(token)
}

// change replaces what is kept, and tells what has ended with it.
func (k *Keyring) change(ctx context.Context, cluster string, cut bool, to func(credential.Record) credential.Record) (after credential.Record, err error) {
	var before credential.Record
	// A 409 means that somebody else changed it: decide again.
	err = retry.RetryOnConflict(Conflicts, func() error {
		before, after, err = k.try(ctx, cluster, to)
		return err
	})
	if err != nil {
		return credential.Record{}, fmt.Errorf("change Secret %s of cluster %s: %w", v1alpha1.KonnectorSecret, cluster, err)
	}
	if ended := credential.Ended(before, after); len(ended) > 0 && k.Ended != nil {
		k.Ended(cluster, ended, cut)
	}
	return after, nil
}

func (k *Keyring) try(ctx context.Context, cluster string, to func(credential.Record) credential.Record) (before, after credential.Record, err error) {
	key := client.ObjectKey{Namespace: v1alpha1.TenantNamespace(cluster), Name: v1alpha1.KonnectorSecret}
	var s corev1.Secret
	err = k.Live.Get(ctx, key, &s)
	if apierrors.IsNotFound(err) {
		if after = to(before); after == before {
			return before, after, nil
		}
		return before, after, k.create(ctx, cluster, key, after)
	}
	if err != nil {
		return before, after, err
	}
	before = credential.ReadRecord(s.Data)
	after = to(before)
	was := s.DeepCopy()
	if s.Data == nil {
		s.Data = map[string][]byte{}
	}
	after.WriteTo(s.Data)
	if equality.Semantic.DeepEqual(was.Data, s.Data) {
		return before, after, nil
	}
	return before, after, k.Client.Patch(ctx, &s, client.MergeFromWithOptions(was, client.MergeFromWithOptimisticLock{}), fieldOwner)
}

// create makes the Secret. The backend may make one of that name only by applying
// it.
func (k *Keyring) create(ctx context.Context, cluster string, key client.ObjectKey, r credential.Record) error {
	data := map[string][]byte{}
	r.WriteTo(data)
	return k.Client.Apply(ctx, corev1ac.Secret(key.Name, key.Namespace).
		WithLabels(map[string]string{v1alpha1.LabelCluster: cluster}).
		WithData(data), fieldOwner, client.ForceOwnership)
}
