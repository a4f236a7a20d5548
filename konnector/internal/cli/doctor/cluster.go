package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/install"
)

// Links of the cluster that others hang on.
const (
	linkKubeconfig = "kubeconfig"
	linkAPIServer  = "API server"
	linkKinds      = "kinds"
)

const reconnect = "kubectl gitbind connect URL (again; it brings the installation up to date)"

// patient is the cluster that is looked at.
type patient struct {
	Input
	cluster     *appcluster.Cluster
	connections []v1alpha1.Connection
	bindings    []v1alpha1.APIServiceBinding
}

func (p *patient) clusterLinks() []link {
	return []link{
		{linkKubeconfig, nil, p.kubeconfig},
		{linkAPIServer, []string{linkKubeconfig}, p.apiServer},
		{linkKinds, []string{linkAPIServer}, p.kinds},
		{"konnector", []string{linkAPIServer}, p.konnector},
		{"konnector's rights", []string{linkAPIServer}, p.rights},
		{"attribution policy", []string{linkAPIServer}, p.attribution},
		{"protection policy", []string{linkAPIServer}, p.protection},
		{"connections", []string{linkKinds}, p.lists},
	}
}

func (p *patient) kubeconfig(context.Context) Finding {
	var err error
	if p.cluster, err = p.Open(); err != nil {
		return fail("choose a cluster with --kubeconfig and --context", "%v", err)
	}
	return ok("context %q, %s", p.cluster.Context, p.cluster.Server)
}

func (p *patient) apiServer(ctx context.Context) Finding {
	_, err := p.cluster.UID(ctx)
	switch {
	case err == nil, apierrors.IsForbidden(err):
		return ok("it answers")
	case apierrors.IsUnauthorized(err):
		return fail("sign in to this cluster as for kubectl", "it does not know you: %v", err)
	}
	return fail("try: kubectl version", "%v", err)
}

// kinds looks whether gitbind's kinds are served, as this plugin knows them.
func (p *patient) kinds(ctx context.Context) Finding {
	objects, err := manifest("CustomResourceDefinition")
	if err != nil {
		return fail("", "%v", err)
	}
	var others []string
	for _, o := range objects {
		var crd apiextensionsv1.CustomResourceDefinition
		err := p.cluster.Get(ctx, client.ObjectKeyFromObject(o), &crd)
		switch {
		case apierrors.IsForbidden(err):
			return p.served(objects)
		case apierrors.IsNotFound(err):
			return fail("kubectl gitbind connect URL", "%s is not installed", o.GetName())
		case err != nil:
			return fail("", "%v", err)
		case !apihelpers.IsCRDConditionTrue(&crd, apiextensionsv1.Established):
			return fail("kubectl describe crd "+crd.Name, "%s is installed, but the API server does not serve it", crd.Name)
		}
		if line, err := p.cluster.Preview(ctx, o); err == nil && !strings.HasSuffix(line, "up to date") {
			others = append(others, o.GetName())
		}
	}
	if len(others) > 0 {
		return warn(reconnect, "%s: not as this version of the plugin installs it", strings.Join(others, ", "))
	}
	return ok("served, as this version of the plugin installs them")
}

// served looks whether gitbind's kinds are served, for somebody who may not see
// their definitions.
func (p *patient) served(definitions []*unstructured.Unstructured) Finding {
	for _, o := range definitions {
		_, err := p.cluster.KindOf(o.GetName())
		switch {
		case meta.IsNoMatchError(err):
			return fail("ask an administrator of this cluster: kubectl gitbind connect URL", "%s is not served", o.GetName())
		case err != nil:
			return fail("", "%v", err)
		}
	}
	return ok("served; whether they are of this version, you may not see")
}

// konnector looks whether one is in charge.
func (p *patient) konnector(ctx context.Context) Finding {
	do := "start it: it runs outside of this cluster, or kubectl gitbind connect URL installs it"
	deployment, err := p.cluster.Konnector(ctx)
	switch {
	case deployment != nil:
		do = "kubectl describe pods -n " + appcluster.SystemNamespace
	case apierrors.IsForbidden(err): // the Lease says what counts
		do = "ask an administrator of this cluster to start it"
	case err != nil:
		return fail("", "look for its Deployment: %v", err)
	}
	var lease coordinationv1.Lease
	err = p.cluster.Get(ctx, client.ObjectKey{Namespace: appcluster.SystemNamespace, Name: appcluster.KonnectorLease}, &lease)
	if apierrors.IsNotFound(err) {
		return fail(do, "none has ever been in charge here")
	}
	if err != nil {
		return unread("its Lease", err)
	}
	absent, err := p.cluster.KonnectorAbsent(ctx, p.Now())
	switch {
	case err != nil:
		return fail("", "%v", err)
	case absent != nil:
		return fail(do, "%s", absent.Say(p.Now()))
	case deployment != nil && deployment.Status.AvailableReplicas < 1:
		return warn(do, "one is in charge, but the Deployment's pods are not available")
	case deployment != nil && !appcluster.IsReplaced(deployment):
		return warn(do, "one is in charge, but that of the image %s is not rolled out: the one before it goes on", appcluster.Image(deployment))
	}
	return ok("in charge")
}

// othersRights is what a SubjectAccessReview tells.
const othersRights = "the rights of others"

// serviceAccount is whose rights the konnector has.
const serviceAccount = "system:serviceaccount:" + appcluster.SystemNamespace + ":konnector"

// rights asks for each right that the konnector's roles should give.
func (p *patient) rights(ctx context.Context) Finding {
	objects, err := manifest("ClusterRole", "Role")
	if err != nil {
		return fail("", "%v", err)
	}
	for _, o := range objects {
		if o.GetName() != "gitbind-konnector" {
			continue
		}
		var role rbacv1.ClusterRole // a Role has its rules in the same place
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role); err != nil {
			return fail("", "%v", err)
		}
		for _, rule := range role.Rules {
			missing, err := p.missing(ctx, o.GetNamespace(), rule)
			if err != nil {
				return unread(othersRights, err)
			}
			if missing != "" {
				return fail(reconnect, "it may not %s", missing)
			}
		}
	}
	return p.secrets(ctx)
}

// secrets looks whether the policies are there that narrow the konnector's right to write
// Secrets, where it has the right in all namespaces. An operator may do without.
func (p *patient) secrets(ctx context.Context) Finding {
	missing, err := p.missing(ctx, "", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"patch"}})
	if err != nil {
		return unread(othersRights, err)
	}
	if missing == "" {
		f := p.policies(ctx, "it may write any Secret", func(o *unstructured.Unstructured) bool {
			return isValidating(o) && narrowsKonnector(o)
		})
		if f.State == Warn {
			f.State = Fail
		}
		if f.State != OK {
			return f
		}
	}
	return ok("it may do what it must")
}

func isValidating(o *unstructured.Unstructured) bool {
	return o.GetKind() == "ValidatingAdmissionPolicy" || o.GetKind() == "ValidatingAdmissionPolicyBinding"
}

// narrowsKonnector tells whether a policy is about what the konnector does: one about Secrets,
// and one that keeps it from handing on its rights.
func narrowsKonnector(o *unstructured.Unstructured) bool {
	return strings.HasPrefix(o.GetName(), "gitbind-konnector-")
}

// missing is the first right of a rule that the konnector has not, in words.
func (p *patient) missing(ctx context.Context, namespace string, rule rbacv1.PolicyRule) (string, error) {
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			plain, sub, _ := strings.Cut(resource, "/")
			for _, verb := range rule.Verbs {
				for _, name := range names {
					review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
						User: serviceAccount, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + appcluster.SystemNamespace, "system:authenticated"},
						ResourceAttributes: &authorizationv1.ResourceAttributes{
							Namespace: namespace, Group: group, Resource: plain, Subresource: sub, Verb: verb, Name: name,
						},
					}}
					if err := p.cluster.Create(ctx, review); err != nil {
						return "", err
					}
					if !review.Status.Allowed {
						return strings.TrimSpace(fmt.Sprintf("%s %s %s", verb, resource, name)), nil
					}
				}
			}
		}
	}
	return "", nil
}

func (p *patient) attribution(ctx context.Context) Finding {
	return p.policies(ctx, "commits cannot name the users who changed a claim", func(o *unstructured.Unstructured) bool {
		return o.GetKind() == "MutatingAdmissionPolicy"
	})
}

func (p *patient) protection(ctx context.Context) Finding {
	return p.policies(ctx, "namespaces with claims, and bound APIs, can be deleted by a slip", func(o *unstructured.Unstructured) bool {
		return isValidating(o) && !narrowsKonnector(o)
	})
}

// policies looks whether some of what the manifest has is there.
func (p *patient) policies(ctx context.Context, without string, some func(*unstructured.Unstructured) bool) Finding {
	objects, err := install.Objects(install.Options{})
	if err != nil {
		return fail("", "%v", err)
	}
	for _, o := range objects {
		if !some(o) {
			continue
		}
		err := p.cluster.Get(ctx, client.ObjectKeyFromObject(o), o)
		switch {
		case meta.IsNoMatchError(err):
			return warn("", "Kubernetes 1.36 has the kind %s, this cluster has not: %s", o.GetKind(), without)
		case apierrors.IsNotFound(err):
			return warn(reconnect, "%s is not installed: %s", o.GetName(), without)
		case err != nil:
			return unread("a "+o.GetKind(), err)
		}
	}
	return ok("installed")
}

// lists reads what the rest is about.
func (p *patient) lists(ctx context.Context) Finding {
	var err error
	if p.connections, err = p.cluster.Connections(ctx); err != nil {
		return unread("Connections; the ClusterRole gitbind-view lets you", err)
	}
	var bindings v1alpha1.APIServiceBindingList
	if err := p.cluster.List(ctx, &bindings); err != nil {
		return unread("APIServiceBindings; the ClusterRole gitbind-view lets you", err)
	}
	p.bindings = bindings.Items
	if len(p.connections) == 0 {
		return fail("kubectl gitbind connect URL", "this cluster is not connected to a control plane")
	}
	return ok("%d, and %d bound APIs", len(p.connections), len(p.bindings))
}

// manifest is what the plugin installs of some kinds.
func manifest(kinds ...string) ([]*unstructured.Unstructured, error) {
	all, err := install.Objects(install.Options{})
	return slices.DeleteFunc(all, func(o *unstructured.Unstructured) bool { return !slices.Contains(kinds, o.GetKind()) }), err
}
