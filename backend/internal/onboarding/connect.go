package onboarding

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/backend/internal/login"
	"gitbind.dev/backend/internal/refusal"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
)

// connect makes a cluster for its owner, or finds the one that is there, and
// gives its konnector a new credential. The old one ends with it.
func (s *Service) connect(ctx context.Context, who login.Identity, in connectInput) (*restapi.Cluster, error) {
	cb, err := s.claimBinding(ctx, who, in)
	if err != nil {
		return nil, err
	}
	if cb, err = s.waitReady(ctx, cb); err != nil {
		return nil, err
	}
	cred, err := s.replace(ctx, who, cb.Name)
	if err != nil {
		return nil, err
	}
	// Credentials from before have ended: a client that has one cannot register keys, and
	// is heard no more.
	if err := s.awaitKeys(ctx, cb.Name); err != nil {
		return nil, err
	}
	if err := s.settle(ctx, cb.Name); err != nil {
		return nil, err
	}
	s.Log.InfoContext(ctx, "Connected", "cluster", cb.Name, "name", cb.Spec.DisplayName, "owner", who.Username)
	answer := s.describe(cb)
	answer.Credential = cred
	answer.Offers, err = s.granted(ctx, cb)
	return &answer, err
}

// granted are the offers that a cluster has, by name.
func (s *Service) granted(ctx context.Context, cb *v1alpha1.ClusterBinding) ([]string, error) {
	var list v1alpha1.APIServiceExportList
	if err := s.Client.List(ctx, &list, client.InNamespace(cb.Status.TenantNamespace)); err != nil {
		return nil, trouble(fmt.Errorf("list APIServiceExports: %w", err))
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Spec.Template)
	}
	slices.Sort(names)
	return names, nil
}

// claimBinding finds or makes the one ClusterBinding of this owner and cluster.
// That there is only one is the API server's doing: all who connect the same
// cluster create the same name.
func (s *Service) claimBinding(ctx context.Context, who login.Identity, in connectInput) (*v1alpha1.ClusterBinding, error) {
	if err := s.mayConnect(ctx, who); err != nil {
		return nil, err
	}
	// Two at a time would each count without the other's.
	s.connecting.Lock()
	defer s.connecting.Unlock()
	own, err := s.own(ctx, who)
	if err != nil {
		return nil, err
	}
	lost, err := s.lost(ctx, who, own, in)
	if err != nil {
		return nil, err
	}
	switch {
	case in.reclaim != "" && lost == "":
		return s.reclaim(ctx, own, in)
	case in.reclaim != "":
		if err := hasNone(own, in.clusterUID); err != nil {
			return nil, err
		}
	default:
		// A cluster that was reclaimed has the id of the one before it.
		if there, err := placeOf(own, in); err != nil {
			return nil, err
		} else if there != nil {
			return there, s.reconnect(ctx, there, in)
		}
	}
	labels, err := s.shard(ctx)
	if err != nil {
		return nil, err
	}
	for _, id := range candidates(who, in, lost) {
		if anothers, err := s.isAnothers(ctx, who, id); err != nil {
			return nil, err
		} else if anothers {
			continue
		}
		// Not before: who connects another person's cluster is told that instead.
		if err := s.mayOwnMore(own); err != nil {
			return nil, err
		}
		cb := &v1alpha1.ClusterBinding{
			ObjectMeta: metav1.ObjectMeta{Name: id, Labels: labels},
			Spec: v1alpha1.ClusterBindingSpec{
				DisplayName: in.displayName,
				ClusterUID:  in.clusterUID,
				AwaitsKeys:  true,
				Owner:       v1alpha1.Owner{Issuer: who.Issuer, Subject: who.Subject, Username: who.Username},
			},
		}
		err := s.Client.Create(ctx, cb, fieldOwner)
		if err == nil {
			return cb, nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return nil, trouble(fmt.Errorf("create ClusterBinding: %w", err))
		}
		if err := s.Live.Get(ctx, client.ObjectKeyFromObject(cb), cb); err != nil {
			return nil, trouble(fmt.Errorf("get ClusterBinding: %w", err))
		}
		if !access.Owns(who, cb) || cb.Spec.ClusterUID != in.clusterUID {
			continue
		}
		return cb, s.reconnect(ctx, cb, in)
	}
	switch {
	case in.reclaim != "":
		return nil, errNone(own, in.reclaim)
	case in.connectedAs != "":
		return nil, refusal.New(refusal.Conflict, "this cluster is connected as cluster %s, which is not yours: its owner connects it (kubectl gitbind logout signs you out), or hands it over to you before (kubectl gitbind transfer)", in.connectedAs)
	}
	return nil, fmt.Errorf("no id left for cluster %s of %s", in.clusterUID, who.Username)
}

// candidates are the ids that a new ClusterBinding may have, of which the first that is free
// counts: the lost one's, or what follows from who connects which cluster.
func candidates(who login.Identity, in connectInput, lost string) []string {
	if lost != "" {
		return []string{lost}
	}
	var ids []string
	for n := range maxCandidates {
		if id := clusterID(who.Issuer, who.Subject, in.clusterUID, n); in.connectedAs == "" || in.connectedAs == id {
			ids = append(ids, id)
		}
	}
	return ids
}

// lost is the id of the cluster that is meant, if it has a repository that is the person's, and
// no ClusterBinding of theirs any more; "" if not. Of one that was reclaimed or handed over, it
// follows from another app cluster or person.
func (s *Service) lost(ctx context.Context, who login.Identity, own []v1alpha1.ClusterBinding, in connectInput) (string, error) {
	id := cmp.Or(in.reclaim, in.connectedAs)
	there := slices.ContainsFunc(own, func(cb v1alpha1.ClusterBinding) bool { return cb.Name == id })
	if there || !v1alpha1.ValidClusterID(id) {
		return "", nil
	}
	owner, err := s.keptFor(ctx, id)
	if err != nil || owner != githost.OwnerDigest(who.Issuer, who.Subject) {
		return "", err
	}
	return id, nil
}

// isAnothers tells whether the repository that a cluster of this id would have is somebody
// else's, to whom that cluster was handed over: it may be there when the ClusterBinding is gone.
func (s *Service) isAnothers(ctx context.Context, who login.Identity, id string) (bool, error) {
	owner, err := s.keptFor(ctx, id)
	return owner != "" && owner != githost.OwnerDigest(who.Issuer, who.Subject), err
}

// keptFor is the digest of whose a repository is; "" if the Git host does not keep that.
func (s *Service) keptFor(ctx context.Context, id string) (string, error) {
	host, ok := s.Host.(githost.Owned)
	if !ok {
		return "", nil
	}
	owner, err := host.Owner(ctx, id)
	if err != nil {
		return "", refusal.Because(err, refusal.Unavailable, "the repositories cannot be looked at just now: try again")
	}
	return owner, nil
}

// reconnect brings a ClusterBinding that is there up to date.
func (s *Service) reconnect(ctx context.Context, cb *v1alpha1.ClusterBinding, in connectInput) error {
	if cb.DeletionTimestamp != nil {
		return errLeaving(cb)
	}
	if s.isCopied(cb) {
		return refusal.New(refusal.Conflict, "two live copies of cluster %s (%s) use its credential, and both are held: to have this one go on, and end the other one's credential, add --reclaim %s",
			cb.Name, cb.Spec.DisplayName, cb.Name)
	}
	if cb.Spec.DisplayName == in.displayName {
		return nil
	}
	before := cb.DeepCopy()
	cb.Spec.DisplayName = in.displayName
	return trouble(s.Client.Patch(ctx, cb, client.MergeFrom(before), fieldOwner))
}

// readyPoll is how often to look whether something is written. The cache is asked, in
// memory: that costs nothing.
const readyPoll = 10 * time.Millisecond

// waitReady waits for the controller to have made all that this version of a
// ClusterBinding needs.
func (s *Service) waitReady(ctx context.Context, asked *v1alpha1.ClusterBinding) (*v1alpha1.ClusterBinding, error) {
	var cb v1alpha1.ClusterBinding
	var ready *metav1.Condition
	err := wait.PollUntilContextCancel(ctx, readyPoll, true, func(ctx context.Context) (bool, error) {
		if err := s.Client.Get(ctx, client.ObjectKeyFromObject(asked), &cb); err != nil {
			return false, client.IgnoreNotFound(err)
		}
		ready = meta.FindStatusCondition(cb.Status.Conditions, v1alpha1.ConditionReady)
		return ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration >= asked.Generation, nil
	})
	if err == nil {
		return &cb, nil
	}
	if ready != nil && ready.Status == metav1.ConditionFalse {
		return nil, refusal.Because(err, refusal.Unavailable, "the cluster is not set up yet (%s): try again", ready.Message)
	}
	return nil, refusal.Because(err, refusal.Unavailable, "the cluster is not set up yet: try again")
}

// clusters are the caller's own, and those that others share with them or offer to them.
func (s *Service) clusters(ctx context.Context, who login.Identity) ([]restapi.Cluster, error) {
	theirs, err := s.Clusters(ctx, who)
	if err != nil {
		return nil, err
	}
	var list v1alpha1.ClusterBindingList
	if err := s.Client.List(ctx, &list); err != nil {
		return nil, trouble(fmt.Errorf("list ClusterBindings: %w", err))
	}
	for _, cb := range list.Items {
		known := func(other v1alpha1.ClusterBinding) bool { return other.Name == cb.Name }
		if cb.Spec.TransferTo == who.Username && !slices.ContainsFunc(theirs, known) {
			theirs = append(theirs, cb)
		}
	}
	all := []restapi.Cluster{}
	for i := range theirs {
		c := s.describe(&theirs[i])
		if !access.Owns(who, &theirs[i]) {
			c.Owner = theirs[i].Spec.Owner.Username
		}
		all = append(all, c)
	}
	return all, nil
}

func (s *Service) describe(cb *v1alpha1.ClusterBinding) restapi.Cluster {
	c := restapi.Cluster{
		ID: cb.Name, Name: cb.Spec.DisplayName, RepositoryURL: s.Host.URL(cb.Name),
		Connected: string(metav1.ConditionUnknown), Foreign: cb.Status.Foreign, TransferTo: cb.Spec.TransferTo,
	}
	if connected := meta.FindStatusCondition(cb.Status.Conditions, v1alpha1.ConditionConnected); connected != nil {
		c.Connected = string(connected.Status)
	}
	if seen := s.lastSeen(cb); !seen.IsZero() {
		c.LastSeen = ptr.To(seen.UTC().Truncate(time.Second))
	}
	return c
}

// lastSeen is when a cluster's konnector was here last, zero when that is not known. What a clock
// has written that was ahead does not count.
func (s *Service) lastSeen(cb *v1alpha1.ClusterBinding) time.Time {
	seen := s.KonnectorSeen(cb.Name)
	if at := cb.Status.LastSeen; at != nil && at.After(seen) && !at.After(s.Now()) {
		seen = at.Time
	}
	return seen
}
