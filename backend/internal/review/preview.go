package review

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/policy"
	"gitbind.dev/policies/evaluator"
)

// maxProblems is how many problems of one claim are told.
const maxProblems = 5

// preview says before a merge why the control plane would refuse a claim: by what the
// bridge has published of the API, and by the policies of its offer. What the offer's
// template makes of the claim, rules in CEL of the API itself and its provider are not asked.
type preview struct {
	service *Service
	cluster string
	apis    map[string]*api
	// files are those of the change, and answered is what the bridge has answered on them, by path;
	// nil until that is asked for.
	files    []restapi.ChangedFile
	answered map[string]*contract.Status
}

// api is what is known of a bound API.
type api struct {
	*published
	// policies are nil for none, and where they cannot be used.
	policies *evaluator.Set
	// quota is nil for none, and usage where nothing is known of it.
	quota *v1alpha1.Quota
	usage *v1alpha1.QuotaUsage
}

// api is nil for one of which nothing is known.
func (p *preview) api(ctx context.Context, binding string) *api {
	a, ok := p.apis[binding]
	if !ok {
		var err error
		if a, err = p.service.api(ctx, p.cluster, binding); err != nil {
			p.service.Log.WarnContext(ctx, "A claim cannot be judged before it is merged", "cluster", p.cluster, "binding", binding, "error", err)
		}
		p.apis[binding] = a
	}
	return a
}

// problem is "" where nothing is against a claim, and where that cannot be told.
func (p *preview) problem(ctx context.Context, f restapi.ChangedFile, c pair) string {
	a := p.api(ctx, f.Binding)
	if a == nil {
		return ""
	}
	after := c.after
	if group, version := a.kind.ToAPIVersionAndKind(); after.APIVersion != group || after.Kind != version {
		return fmt.Sprintf("it is a %s %s, but the API is bound as %s %s", after.APIVersion, after.Kind, group, version)
	}
	var reasons []string
	for _, problem := range a.schema.Problems(after) {
		reasons = append(reasons, problem.Message)
	}
	if len(reasons) == 0 {
		reasons = a.denials(ctx, c.before, after)
		if len(reasons) > 0 && c.isNotApplied(p.answer(ctx, f.Path)) {
			return "" // To take that back is fine: the bridge knows what is there, and tries it.
		}
	}
	return strings.Join(reasons[:min(len(reasons), maxProblems)], "; ")
}

// object is a claim as an API server would see it.
func (a *api) object(c *contract.Claim) *unstructured.Unstructured {
	u := a.keys.Of(c).Object()
	a.schema.Default(u)
	return u
}

// api reads what a cluster knows of an API; nil for one that is not published.
func (s *Service) api(ctx context.Context, cluster, binding string) (*api, error) {
	data, blob, err := s.Git.Read(ctx, cluster, "status", contract.ExportPath(binding))
	switch {
	case errors.Is(err, githost.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	a := &api{}
	if a.published, err = s.exports.of(blob, func() (*published, error) { return readExport(data) }); err != nil {
		return nil, fmt.Errorf("export %s: %w", binding, err)
	}
	var template v1alpha1.APIServiceExportTemplate
	if err := s.Control.Get(ctx, client.ObjectKey{Name: a.template}, &template); err != nil {
		return a, client.IgnoreNotFound(err)
	}
	a.policies, err = s.policies.of(policy.Revision(template.Spec.Policies), func() (*evaluator.Set, error) { return policy.Compile(template.Spec.Policies) })
	if err != nil {
		return a, err
	}
	if a.quota = template.Spec.Quota; a.quota != nil {
		if a.usage, err = s.usage(ctx, cluster, binding); a.usage != nil && a.usage.QuotaHash != a.quota.Hash() {
			a.usage = nil // The bridge publishes another one in a moment, unless it is an old one.
		}
		if a.usage != nil && a.quota.Weights != nil && template.Spec.Transform != nil {
			// What a claim weighs then is not known, nor whether others wait for weight.
			a.usage.Waiting = nil
			for _, limit := range []*v1alpha1.QuotaLimit{a.quota.Cluster, a.quota.Namespace} {
				if limit != nil {
					limit.Weight = nil
				}
			}
		}
	}
	return a, err
}

// usage is what the bridge has published of how much of a quota a cluster uses.
func (s *Service) usage(ctx context.Context, cluster, binding string) (*v1alpha1.QuotaUsage, error) {
	var e v1alpha1.APIServiceExport
	if err := s.Control.Get(ctx, client.ObjectKey{Namespace: v1alpha1.TenantNamespace(cluster), Name: binding}, &e); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return e.Status.Quota, nil
}
