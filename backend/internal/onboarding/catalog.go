package onboarding

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/backend/internal/login"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
)

// catalog lists the offers that somebody may bind, by name.
func (s *Service) catalog(ctx context.Context, who login.Identity) ([]restapi.Offer, error) {
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
	bound, err := s.bound(ctx, who)
	if err != nil {
		return nil, err
	}
	offers := []restapi.Offer{}
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
		offers = append(offers, restapi.Offer{
			Name: t.Name, API: t.Spec.API, Kind: t.Status.Kind,
			DisplayName: cmp.Or(t.Spec.DisplayName, t.Status.Kind), Group: t.Spec.Group, Description: t.Spec.Description,
			Bound: bound[t.Name],
		})
	}
	slices.SortFunc(offers, func(a, b restapi.Offer) int { return strings.Compare(a.Name, b.Name) })
	return offers, nil
}

// bound says which of somebody's clusters have which offers: names of clusters
// by name of the offer.
func (s *Service) bound(ctx context.Context, who login.Identity) (map[string][]string, error) {
	var clusters v1alpha1.ClusterBindingList
	if err := s.Client.List(ctx, &clusters); err != nil {
		return nil, trouble(fmt.Errorf("list ClusterBindings: %w", err))
	}
	names := map[string][]string{}
	for i := range clusters.Items {
		cb := &clusters.Items[i]
		if !access.Owns(who, cb) || cb.Status.TenantNamespace == "" {
			continue
		}
		offers, err := s.granted(ctx, cb)
		if err != nil {
			return nil, err
		}
		for _, offer := range offers {
			names[offer] = append(names[offer], cb.Spec.DisplayName)
		}
	}
	for _, list := range names {
		slices.Sort(list)
	}
	return names, nil
}
