package onboarding

import (
	"context"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/backend/internal/login"
	"gitbind.dev/gitbridge/api/restapi"
)

// rotate gives the owner a new credential for the konnector. All others of it
// end at once.
func (s *Service) rotate(ctx context.Context, who login.Identity, id string) (*restapi.Credential, error) {
	cb, err := access.OwnCluster(ctx, s.Client, s.Live, who, id)
	if err != nil {
		return nil, err
	}
	if cb.DeletionTimestamp != nil {
		return nil, errLeaving(cb)
	}
	if err := s.mayConnect(ctx, who); err != nil {
		return nil, err
	}
	cred, err := s.Keys.Issue(ctx, cb.Name)
	if err != nil {
		return nil, keyTrouble(err)
	}
	s.Log.InfoContext(ctx, "Credential rotated", "cluster", cb.Name, "by", who.Username, "expires", cred.Expires)
	return s.withGit(ctx, cb.Name, cred)
}

// revoke ends all credentials of a cluster's konnector at once.
func (s *Service) revoke(ctx context.Context, who login.Identity, id string) error {
	cb, err := access.OwnCluster(ctx, s.Client, s.Live, who, id)
	if err != nil {
		return err
	}
	if err := s.Keys.Revoke(ctx, cb.Name); err != nil {
		return keyTrouble(err)
	}
	s.Log.InfoContext(ctx, "Credential revoked", "cluster", cb.Name, "by", who.Username)
	return nil
}
