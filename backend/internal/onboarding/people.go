package onboarding

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/backend/internal/login"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
)

// What the web page needs, for somebody who is signed in there. It follows the
// same rules as the requests of this package.

// Catalog lists the offers that somebody may bind, by name.
func (s *Service) Catalog(ctx context.Context, who login.Identity) ([]restapi.Offer, error) {
	return s.catalog(ctx, who)
}

// Clusters are somebody's own.
func (s *Service) Clusters(ctx context.Context, who login.Identity) ([]v1alpha1.ClusterBinding, error) {
	var list v1alpha1.ClusterBindingList
	if err := s.Client.List(ctx, &list); err != nil {
		return nil, trouble(fmt.Errorf("list ClusterBindings: %w", err))
	}
	var own []v1alpha1.ClusterBinding
	for i := range list.Items {
		if access.Owns(who, &list.Items[i]) {
			own = append(own, list.Items[i])
		}
	}
	return own, nil
}

// Cluster is one of somebody's own; any other is not there.
func (s *Service) Cluster(ctx context.Context, who login.Identity, id string) (*v1alpha1.ClusterBinding, error) {
	return access.OwnCluster(ctx, s.Client, s.Live, who, id)
}

// Exports are the APIs that a cluster has. It asks for nobody's rights.
func (s *Service) Exports(ctx context.Context, cb *v1alpha1.ClusterBinding) ([]v1alpha1.APIServiceExport, error) {
	if cb.Status.TenantNamespace == "" {
		return nil, nil
	}
	var list v1alpha1.APIServiceExportList
	if err := s.Client.List(ctx, &list, client.InNamespace(cb.Status.TenantNamespace)); err != nil {
		return nil, trouble(fmt.Errorf("list APIServiceExports: %w", err))
	}
	return list.Items, nil
}

// Bind grants an offer to one of somebody's clusters.
func (s *Service) Bind(ctx context.Context, who login.Identity, cluster, offer string) (*restapi.Binding, error) {
	return s.bind(ctx, who, bindInput{cluster: cluster, template: offer})
}
