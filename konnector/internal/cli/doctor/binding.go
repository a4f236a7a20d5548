package doctor

import (
	"context"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/policies/attribution"
)

// binding is one bound API that is looked at.
type binding struct {
	*patient
	v1alpha1.APIServiceBinding
}

func (b *binding) links() []link {
	return []link{
		{"its connection", nil, b.connection},
		{"API", nil, b.api},
		{"konnector's rights", nil, b.rights},
		{"attribution", nil, b.attribution},
		{"policies", nil, b.policies},
		{"binding", nil, b.condition},
	}
}

func (b *binding) again() string { return "kubectl gitbind bind " + b.Name }

func (b *binding) connection(context.Context) Finding {
	for _, c := range b.connections {
		if c.Name == b.Spec.Connection {
			return ok("%s", c.Name)
		}
	}
	return fail("kubectl gitbind connect URL --name "+b.Spec.Connection, "the Connection %s does not exist", b.Spec.Connection)
}

func (b *binding) api(ctx context.Context) Finding {
	var crd apiextensionsv1.CustomResourceDefinition
	err := b.cluster.Get(ctx, client.ObjectKey{Name: b.Name}, &crd)
	if apierrors.IsForbidden(err) {
		if _, err = b.cluster.KindOf(b.Name); err == nil {
			return ok("served")
		}
	}
	switch {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return fail("see below what the konnector says", "it is not installed in this cluster")
	case err != nil:
		return fail("", "%v", err)
	case crd.Annotations[v1alpha1.ConnectionAnnotation] == "":
		return fail("remove the one of the two that is not needed", "the CustomResourceDefinition of this name is somebody else's")
	case !apihelpers.IsCRDConditionTrue(&crd, apiextensionsv1.Established):
		return fail("kubectl describe crd "+b.Name, "it is installed, but the API server does not serve it")
	}
	return ok("installed and served")
}

func (b *binding) rights(ctx context.Context) Finding {
	plural, group, _ := strings.Cut(b.Name, ".")
	for _, rule := range []rbacv1.PolicyRule{
		{APIGroups: []string{group}, Resources: []string{plural}, Verbs: []string{"get", "list", "watch", "create", "update", "patch", "delete"}},
		{APIGroups: []string{group}, Resources: []string{plural + "/status"}, Verbs: []string{"update"}},
	} {
		missing, err := b.missing(ctx, "", rule)
		if err != nil {
			return unread(othersRights, err)
		}
		if missing != "" {
			return fail(b.again(), "it may not %s", missing)
		}
	}
	return ok("it may work on its claims")
}

func (b *binding) attribution(ctx context.Context) Finding {
	plural, _, _ := strings.Cut(b.Name, ".")
	want := attribution.ForBinding(contract.BindingGroup(b.Name), plural)
	err := b.cluster.Get(ctx, client.ObjectKeyFromObject(want), &admissionv1.MutatingAdmissionPolicyBinding{})
	switch {
	case meta.IsNoMatchError(err):
		return warn("", "this cluster cannot name the users who changed a claim")
	case apierrors.IsNotFound(err):
		return warn(b.again(), "off: commits cannot name the users who changed a claim")
	case err != nil:
		return unread("a MutatingAdmissionPolicyBinding", err)
	}
	return ok("on")
}

// policies are those of the offer, by which the control plane judges in any case.
func (b *binding) policies(context.Context) Finding {
	switch c := appcluster.Current(b.Status.Conditions, v1alpha1.ConditionPolicies, b.Generation); {
	case c == nil:
		return ok("the offer has none for this cluster")
	case c.Status != "True":
		return warn(b.again(), "%s", appcluster.Say(*c))
	default:
		return ok("%s", c.Message)
	}
}

// condition is what the konnector says of it.
func (b *binding) condition(context.Context) Finding {
	ready := appcluster.Current(b.Status.Conditions, v1alpha1.ConditionReady, b.Generation)
	switch {
	case ready == nil:
		return fail("see the konnector's log", "no konnector has looked at it as it is now")
	case !b.DeletionTimestamp.IsZero():
		return warn("kubectl gitbind unbind "+b.Name+" watches it", "it is being unbound: %s", appcluster.Say(*ready))
	case ready.Status != "True":
		return fail("", "the konnector says: %s", appcluster.Say(*ready))
	case b.Status.HeldFiles > 0:
		return warn("kubectl gitbind get", "%d files on main have no object in this cluster, or none that can be changed", b.Status.HeldFiles)
	}
	return ok("it can be used")
}
