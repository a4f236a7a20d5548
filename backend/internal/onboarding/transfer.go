package onboarding

import (
	"context"
	"fmt"
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/backend/internal/login"
	"gitbind.dev/backend/internal/refusal"
	"gitbind.dev/backend/internal/requests"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
)

func (s *Service) mountTransfer(mux *http.ServeMux) {
	const path = "POST /v1/clusters/{id}/transfer"
	mux.Handle(path, s.Requests.Handle(requests.Timeout, func(w http.ResponseWriter, r *http.Request, who login.Identity) (any, error) {
		var body restapi.TransferRequest
		if err := requests.Decode(w, r, &body); err != nil {
			return nil, err
		}
		return s.offerTransfer(r.Context(), who, r.PathValue("id"), body.To)
	}))
	mux.Handle(path+"/accept", s.Requests.Handle(requests.Timeout, func(_ http.ResponseWriter, r *http.Request, who login.Identity) (any, error) {
		return s.acceptTransfer(r.Context(), who, r.PathValue("id"))
	}))
}

// offerTransfer offers a cluster to another user, or to nobody any more.
func (s *Service) offerTransfer(ctx context.Context, who login.Identity, id, to string) (*restapi.Cluster, error) {
	cb, err := s.ownPresent(ctx, who, id)
	if err != nil {
		return nil, err
	}
	if to != "" {
		if to, err = s.People.Name(who, false, to); err != nil {
			return nil, err
		}
	}
	before := cb.DeepCopy()
	cb.Spec.TransferTo = to
	if err := s.patchSpec(ctx, before, cb); err != nil {
		return nil, err
	}
	s.Log.InfoContext(ctx, "Transfer offered", "cluster", cb.Name, "by", who.Username, "to", to)
	answer := s.describe(cb)
	return &answer, nil
}

// acceptTransfer makes the user to whom a cluster is offered its owner. The one before has
// no right on it from then on.
func (s *Service) acceptTransfer(ctx context.Context, who login.Identity, id string) (*restapi.Cluster, error) {
	if err := s.mayConnect(ctx, who); err != nil {
		return nil, err
	}
	// As a connect: two at a time would each count without the other's.
	s.connecting.Lock()
	defer s.connecting.Unlock()
	none := refusal.New(refusal.NotFound, "no cluster %.40q is offered to you (%s): its owner offers it with kubectl gitbind transfer --to %s", id, who.Username, who.Username)
	var cb v1alpha1.ClusterBinding
	if !v1alpha1.ValidClusterID(id) {
		return nil, none
	}
	err := s.Live.Get(ctx, client.ObjectKey{Name: id}, &cb)
	if client.IgnoreNotFound(err) != nil {
		return nil, trouble(fmt.Errorf("get ClusterBinding: %w", err))
	}
	if err != nil || cb.DeletionTimestamp != nil || cb.Spec.TransferTo == "" || cb.Spec.TransferTo != who.Username {
		return nil, none
	}
	own, err := s.own(ctx, who)
	if err != nil {
		return nil, err
	}
	if !access.Owns(who, &cb) {
		if err := s.mayOwnMore(own); err != nil {
			return nil, err
		}
	}
	before := cb.DeepCopy()
	cb.Spec.Owner = v1alpha1.Owner{Issuer: who.Issuer, Subject: who.Subject, Username: who.Username}
	cb.Spec.TransferTo = ""
	if err := s.patchSpec(ctx, before, &cb); err != nil {
		return nil, err
	}
	s.Log.InfoContext(ctx, "Transferred", "cluster", cb.Name, "from", before.Spec.Owner.Username, "to", who.Username)
	answer := s.describe(&cb)
	return &answer, nil
}
