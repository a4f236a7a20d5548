package onboarding

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/backend/internal/login"
	"gitbind.dev/backend/internal/refusal"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
)

// bind grants an offer to a cluster: it writes the APIServiceExport, and the
// controllers do the rest.
func (s *Service) bind(ctx context.Context, who login.Identity, in bindInput) (*restapi.Binding, error) {
	cb, err := s.ownPresent(ctx, who, in.cluster)
	if err != nil {
		return nil, err
	}
	template, err := s.offer(ctx, who, in.template)
	if err != nil {
		return nil, err
	}
	export := v1alpha1.NewAPIServiceExport(cb.Status.TenantNamespace, cb.Name, cb.UID, template.Name, template.Spec.API)
	answer := &restapi.Binding{Name: export.Name, Offer: template.Name}
	err = s.Client.Create(ctx, export, fieldOwner)
	if err == nil {
		s.Log.InfoContext(ctx, "Bound", "cluster", cb.Name, "offer", template.Name, "by", who.Username)
		return answer, s.permit(ctx, cb, template.Name)
	}
	if !apierrors.IsAlreadyExists(err) {
		return nil, trouble(fmt.Errorf("create APIServiceExport: %w", err))
	}
	if err := s.Live.Get(ctx, client.ObjectKeyFromObject(export), export); err != nil {
		return nil, trouble(fmt.Errorf("get APIServiceExport: %w", err))
	}
	switch {
	case export.DeletionTimestamp != nil:
		return nil, refusal.New(refusal.Conflict, "%s is being unbound from cluster %s: bind it again when that is done", export.Name, cb.Name)
	case export.Spec.Template != template.Name:
		return nil, refusal.New(refusal.Conflict, "%s is bound in cluster %s already, by offer %s: unbind it first", export.Name, cb.Name, export.Spec.Template)
	}
	return answer, s.permit(ctx, cb, template.Name)
}

// offer gives a template that this person may bind. One that they may not is
// not there for them.
func (s *Service) offer(ctx context.Context, who login.Identity, name string) (*v1alpha1.APIServiceExportTemplate, error) {
	allowed, err := s.mayBind(ctx, who, name)
	if err != nil {
		return nil, err
	}
	var template v1alpha1.APIServiceExportTemplate
	err = s.Client.Get(ctx, client.ObjectKey{Name: name}, &template)
	if client.IgnoreNotFound(err) != nil {
		return nil, trouble(fmt.Errorf("get APIServiceExportTemplate: %w", err))
	}
	if err != nil || !allowed {
		return nil, refusal.New(refusal.NotFound, "there is no offer %q that you may bind: the catalogue lists those that you may, and a platform operator grants the others (verb bind on apiserviceexporttemplates)", name)
	}
	if !offered(&template) {
		return nil, refusal.New(refusal.Conflict, "offer %s cannot be bound just now: a platform operator finds the reason in its conditions", name)
	}
	return &template, nil
}

func offered(t *v1alpha1.APIServiceExportTemplate) bool {
	return meta.IsStatusConditionTrue(t.Status.Conditions, v1alpha1.ConditionOffered)
}
