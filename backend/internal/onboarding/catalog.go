package onboarding

import (
	"context"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"

	"gitbind.dev/backend/api/v1alpha1"
	"gitbind.dev/backend/internal/login"
)

// catalog lists the offers that somebody may bind, by name.
func (s *Service) catalog(ctx context.Context, who login.Identity) ([]v1alpha1.Offer, error) {
	var list v1alpha1.APIServiceExportTemplateList
	if err := s.Client.List(ctx, &list); err != nil {
		return nil, trouble(fmt.Errorf("list APIServiceExportTemplates: %w", err))
	}
	// Most people may bind all or are named one by one; the first costs one
	// question.
	all, err := s.mayBind(ctx, who, "")
	if err != nil {
		return nil, err
	}
	offers := []v1alpha1.Offer{}
	for i := range list.Items {
		t := &list.Items[i]
		if !offered(t) {
			continue
		}
		if !all {
			if ok, err := s.mayBind(ctx, who, t.Name); err != nil {
				return nil, err
			} else if !ok {
				continue
			}
		}
		offers = append(offers, v1alpha1.Offer{Name: t.Name, API: t.Spec.API, Kind: t.Status.Kind, Description: t.Spec.Description})
	}
	slices.SortFunc(offers, func(a, b v1alpha1.Offer) int { return strings.Compare(a.Name, b.Name) })
	return offers, nil
}

// mayBind asks the control plane's RBAC, for the person and not for the
// backend. No name means all templates.
func (s *Service) mayBind(ctx context.Context, who login.Identity, template string) (bool, error) {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:   who.Username,
		Groups: append([]string{"system:authenticated"}, who.Groups...),
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group:    v1alpha1.GroupVersion.Group,
			Version:  v1alpha1.GroupVersion.Version,
			Resource: "apiserviceexporttemplates",
			Name:     template,
			Verb:     "bind",
		},
	}}
	if err := s.Client.Create(ctx, review); err != nil {
		return false, trouble(fmt.Errorf("create SubjectAccessReview: %w", err))
	}
	return review.Status.Allowed, nil
}
