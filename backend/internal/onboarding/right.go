package onboarding

import (
	"context"

	authorizationv1 "k8s.io/api/authorization/v1"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/backend/internal/login"
	"gitbind.dev/backend/internal/refusal"
	"gitbind.dev/gitbridge/api/v1alpha1"
)

// mayConnect refuses a person without the right to connect clusters. Whatever
// gives a person a cluster's credential asks for it.
func (s *Service) mayConnect(ctx context.Context, who login.Identity) error {
	ok, err := s.allowed(ctx, who, "create", "clusterbindings", "")
	if err != nil || ok {
		return err
	}
	return refusal.New(refusal.Forbidden, "you (%s) may not connect clusters: a platform operator gives the right, create on clusterbindings.gitbind.dev, with: kubectl create clusterrolebinding NAME --clusterrole=%s --user=%s (or --group=…)",
		who.Username, v1alpha1.ClusterOwnerRole, who.Username)
}

// mayBind tells whether a person may bind a template. No name means all.
func (s *Service) mayBind(ctx context.Context, who login.Identity, template string) (bool, error) {
	return s.allowed(ctx, who, "bind", "apiserviceexporttemplates", template)
}

// allowed asks the control plane's RBAC, for the person and not for the backend.
func (s *Service) allowed(ctx context.Context, who login.Identity, verb, resource, name string) (bool, error) {
	ok, err := access.Review(ctx, s.Client, who, authorizationv1.ResourceAttributes{Resource: resource, Name: name, Verb: verb})
	return ok, trouble(err)
}
