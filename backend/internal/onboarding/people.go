package onboarding

import (
	"cmp"
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/backend/internal/login"
	"gitbind.dev/backend/internal/refusal"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
)

// What the web page needs, for somebody who is signed in there. It follows the
// same rules as the requests of this package.

// Catalog lists the offers that somebody may bind, by name.
func (s *Service) Catalog(ctx context.Context, who login.Identity) ([]restapi.Offer, error) {
	return s.catalog(ctx, who)
}

// Clusters are somebody's own, and those that others share with them.
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
	shared, err := s.sharedWith(ctx, who, list.Items)
	return append(own, shared...), err
}

// Cluster is one that is somebody's own, or whose repository they may view; any other is
// not there. It asks the API server for what is not their own: the caller bounds how often.
func (s *Service) Cluster(ctx context.Context, who login.Identity, id string) (*v1alpha1.ClusterBinding, error) {
	cb, notTheirs := access.OwnCluster(ctx, s.Client, s.Live, who, id)
	if !refusal.Is(notTheirs, refusal.NotFound) || !v1alpha1.ValidClusterID(id) {
		return cb, notTheirs
	}
	ok, err := s.mayView(ctx, who, id)
	if err != nil || !ok {
		return nil, cmp.Or(err, notTheirs)
	}
	cb = &v1alpha1.ClusterBinding{}
	if err := s.Client.Get(ctx, client.ObjectKey{Name: id}, cb); err != nil {
		return nil, cmp.Or(client.IgnoreNotFound(err), notTheirs)
	}
	return cb, nil
}

// Exports are the APIs that a cluster has. It checks no rights.
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
