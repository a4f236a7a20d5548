package onboarding

import (
	"context"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/backend/internal/credential"
	"gitbind.dev/backend/internal/login"
	"gitbind.dev/backend/internal/refusal"
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
	cred, err := s.replace(ctx, who, cb.Name)
	if err != nil {
		return nil, err
	}
	s.Log.InfoContext(ctx, "Credential rotated", "cluster", cb.Name, "by", who.Username, "expires", cred.Expires)
	return cred, nil
}

// replace gives the konnector of a cluster of this person's a credential in the place of all
// that it had. Those count until a Git host of its own has given its part: one that is away
// cuts no konnector off.
func (s *Service) replace(ctx context.Context, who login.Identity, cluster string) (*restapi.Credential, error) {
	give := s.Keys.Prepare
	if s.Accounts == nil {
		give = s.Keys.Issue
	}
	undo, err := s.mayIssueGit(cluster, byOwner)
	if err != nil {
		return nil, err
	}
	var cred *restapi.Credential
	err = s.whileOwner(ctx, who, cluster, func() (err error) {
		cred, err = give(ctx, cluster)
		return keyTrouble(err)
	})
	if err == nil {
		cred, err = s.withGit(ctx, cluster, cred)
	}
	if err != nil {
		undo() // People are bounded by what they may ask for.
		return nil, err
	}
	if s.Accounts == nil {
		return cred, nil
	}
	err = s.whileOwner(ctx, who, cluster, func() error {
		counts, err := s.Keys.Replace(ctx, cluster, credential.Hash(cred.Password))
		if err == nil && !counts {
			return refusal.New(refusal.Conflict, "the credential was revoked or replaced meanwhile: try again")
		}
		return keyTrouble(err)
	})
	if err != nil {
		return nil, err
	}
	return cred, nil
}

// whileOwner does what only the owner of a cluster may, who stays that until it is done. The
// API server is asked: a cache, and what was read before something took its time, may be from
// before a transfer.
func (s *Service) whileOwner(ctx context.Context, who login.Identity, cluster string, do func() error) error {
	s.connecting.Lock() // as who accepts a transfer
	defer s.connecting.Unlock()
	cb, err := access.OwnCluster(ctx, s.Live, s.Live, who, cluster)
	if err != nil {
		return err
	}
	if cb.DeletionTimestamp != nil {
		return errLeaving(cb)
	}
	return do()
}

// revoke ends all credentials of a cluster's konnector at once.
func (s *Service) revoke(ctx context.Context, who login.Identity, id string) error {
	cb, err := access.OwnCluster(ctx, s.Live, s.Live, who, id)
	if err != nil {
		return err
	}
	if err := s.Keys.Revoke(ctx, cb.Name); err != nil {
		return keyTrouble(err)
	}
	s.Log.InfoContext(ctx, "Credential revoked", "cluster", cb.Name, "by", who.Username)
	return nil
}
