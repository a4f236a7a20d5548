package apiservicebinding

import (
	"context"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/konnector/internal/agent/controller/claim"
)

// rights are what working on the claims of an API takes. They come with the API:
// ClusterRole gitbind:api:<plural>.<group>.
var rights = []struct{ verb, subresource string }{
	{"get", ""}, {"list", ""}, {"watch", ""}, {"create", ""}, {"update", ""}, {"patch", ""}, {"delete", ""}, {"update", "status"},
}

// forbidden returns the first right that is missing, in words; "" for none.
func (r *Reconciler) forbidden(ctx context.Context, api claim.API) (string, error) {
	plural, _, _ := strings.Cut(api.Binding, ".")
	for _, right := range rights {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: right.verb, Group: contract.BindingGroup(api.Binding), Resource: plural, Subresource: right.subresource,
			},
		}}
		if err := r.Client.Create(ctx, review); err != nil {
			return "", fmt.Errorf("review access to %s: %w", api.Binding, err)
		}
		if !review.Status.Allowed {
			return strings.TrimSuffix(right.verb+" "+right.subresource, " "), nil
		}
	}
	return "", nil
}
