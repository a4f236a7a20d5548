package onboarding

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/backend/internal/credential"
	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/backend/internal/login"
	"gitbind.dev/backend/internal/refusal"
	"gitbind.dev/backend/internal/requests"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
)

// Keyring issues and ends konnectors' credentials.
type Keyring interface {
	Issue(ctx context.Context, cluster string) (*restapi.Credential, error)
	Prepare(ctx context.Context, cluster string) (*restapi.Credential, error)
	Replace(ctx context.Context, cluster, hash string) (bool, error)
	Renew(ctx context.Context, cluster, by string) (*restapi.Credential, error)
	Counts(ctx context.Context, cluster, hash string) (bool, error)
	Revoke(ctx context.Context, cluster string) error
	RenewAfter(expires time.Time) time.Time
}

// mountCredentials adds what a konnector asks with its own credential, and what
// a cluster's owner decides about it.
func (s *Service) mountCredentials(mux *http.ServeMux) {
	const path = "/v1/clusters/{id}/credential"
	mux.Handle("GET "+path, s.Konnectors.Handle(func(_ *http.Request, who access.Caller) (any, error) {
		return &restapi.Credential{Username: credential.KonnectorUser, Expires: who.Expires, RenewAfter: s.Keys.RenewAfter(who.Expires)}, nil
	}))
	mux.Handle("POST "+path, s.Konnectors.Handle(func(r *http.Request, who access.Caller) (any, error) {
		return s.renew(r.Context(), who)
	}))
	mux.Handle("POST "+path+"/git", s.Konnectors.Handle(func(r *http.Request, who access.Caller) (any, error) {
		return s.renewGit(r.Context(), who)
	}))
	mux.Handle("POST "+path+"/rotate", s.Requests.Handle(requests.Timeout, func(_ http.ResponseWriter, r *http.Request, who login.Identity) (any, error) {
		return s.rotate(r.Context(), who, r.PathValue("id"))
	}))
	mux.Handle("DELETE "+path, s.Requests.Handle(requests.Timeout, func(_ http.ResponseWriter, r *http.Request, who login.Identity) (any, error) {
		return struct{}{}, s.revoke(r.Context(), who, r.PathValue("id"))
	}))
}

// renewEvery is how often one cluster's credential may be renewed.
const renewEvery = time.Second

// renew gives a konnector its next credential. The present one counts until that
// is used.
func (s *Service) renew(ctx context.Context, who access.Caller) (*restapi.Credential, error) {
	if err := s.mayRenew(ctx, who); err != nil {
		return nil, err
	}
	undo, err := s.mayIssueGit(who.Cluster, byKonnector)
	if err != nil {
		return nil, err
	}
	cred, err := s.Keys.Renew(ctx, who.Cluster, who.Hash)
	if err != nil {
		undo()
		return nil, keyTrouble(err)
	}
	s.Log.InfoContext(ctx, "Credential renewed", "cluster", who.Cluster, "expires", cred.Expires)
	return s.withGit(ctx, who.Cluster, cred)
}

func (s *Service) mayRenew(ctx context.Context, who access.Caller) error {
	if _, wait := s.renewals.Take(who.Cluster, renewEvery, 1, s.Now()); wait > 0 {
		return refusal.New(refusal.Unavailable, "the credential was renewed a moment ago: try again")
	}
	var cb v1alpha1.ClusterBinding
	if err := s.Client.Get(ctx, client.ObjectKey{Name: who.Cluster}, &cb); err != nil {
		return trouble(fmt.Errorf("get ClusterBinding: %w", err))
	}
	if s.isCopied(&cb) {
		// It would end the credential of the other one, which no person has decided.
		return refusal.New(refusal.Conflict, "two live copies of this cluster use its credential: its owner decides which goes on")
	}
	return nil
}

// Who asks for what opens the repository, on a Git host of its own.
const (
	byKonnector = "konnector"
	byOwner     = "owner"
)

// mayIssueGit tells whether a Git host of its own may be asked for what opens the repository. It
// comes before a new credential is kept, which has the host be asked what has ended. Undo has it
// not count.
func (s *Service) mayIssueGit(cluster, by string) (undo func(), err error) {
	if s.Accounts == nil {
		return func() {}, nil
	}
	undo, err = s.issues.May(cluster, by, s.Now())
	if often := (*githost.TooOftenError)(nil); errors.As(err, &often) {
		err = refusal.Because(err, refusal.Unavailable, "this cluster asked for several credentials of the Git host within minutes: try again from %s on", often.Until.UTC().Format(time.RFC3339))
	}
	return undo, err
}

// withGit adds to a konnector's credential which repository it opens, or what does, on a Git
// host of its own. That has the credential's hash for a name, and ends with it.
func (s *Service) withGit(ctx context.Context, cluster string, cred *restapi.Credential) (*restapi.Credential, error) {
	if s.Accounts == nil {
		cred.RepositoryURL = s.Host.URL(cluster)
		return cred, nil
	}
	var err error
	cred.Git, err = s.issueGit(ctx, cluster, credential.Hash(cred.Password))
	return cred, err
}

// issueGit gives what opens the repository to who has the credential with a hash, which is
// its name.
func (s *Service) issueGit(ctx context.Context, cluster, hash string) (*restapi.GitCredential, error) {
	git, err := s.Accounts.Issue(ctx, cluster, credential.KonnectorUser, hash)
	if err != nil {
		return nil, refusal.Because(err, refusal.Unavailable, "the Git host gives no credential just now: try again")
	}
	// What was revoked meanwhile gets nothing: those of its name may have been ended already.
	counts, err := s.Keys.Counts(ctx, cluster, hash)
	switch {
	case err != nil:
		return nil, keyTrouble(err)
	case !counts:
		return nil, refusal.New(refusal.Unauthenticated, "the credential has ended: connect the cluster again with kubectl gitbind connect")
	}
	return &restapi.GitCredential{Username: git.Username, Password: git.Password, Expires: git.Expires, RenewAfter: git.RenewAfter, RepositoryURL: s.Host.URL(cluster)}, nil
}

// renewGit gives a konnector another credential of the Git host, beside the credential that it
// shows.
func (s *Service) renewGit(ctx context.Context, who access.Caller) (*restapi.GitCredential, error) {
	if s.Accounts == nil {
		return nil, refusal.New(refusal.NotFound, "the repository is opened by the same credential")
	}
	if err := s.mayRenew(ctx, who); err != nil {
		return nil, err
	}
	if _, err := s.mayIssueGit(who.Cluster, byKonnector); err != nil {
		return nil, err
	}
	return s.issueGit(ctx, who.Cluster, who.Hash)
}

// keyTrouble is trouble, and a change at the same time that does not end.
func keyTrouble(err error) error {
	if apierrors.IsConflict(err) {
		return refusal.Because(err, refusal.Conflict, "the credential is being changed by somebody else, too: try again")
	}
	return trouble(err)
}
