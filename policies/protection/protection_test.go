package protection_test

import (
	"os/exec"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/policies/protection"
	"gitbind.dev/test/env"
	"gitbind.dev/test/fakeapi"
)

// cluster is an app cluster with the policies, as an administrator sees it.
type cluster struct {
	*testing.T
	client.Client
	config *rest.Config
}

func start(t *testing.T) cluster {
	t.Helper()
	e := env.StartForTest(t, env.Options{Clusters: []string{env.App}, NoControllerManager: true})
	app := e.Cluster(env.App)
	c, err := client.New(app.Config(), client.Options{Scheme: fakeapi.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"../../kustomize/crds/app", "../../kustomize/crds/control-plane", "."} {
		if out, err := exec.CommandContext(t.Context(), e.Kubectl, "--kubeconfig", app.Kubeconfig, "apply", "-k", what).CombinedOutput(); err != nil {
			t.Fatalf("kubectl apply %s: %v: %s", what, err, out)
		}
	}
	return cluster{t, c, app.Config()}
}

func (c cluster) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// refused tries a delete, without doing it. The policies, and what the konnector wrote
// down, are in force some time after they were written.
func (c cluster) refused(o client.Object, words ...string) {
	c.Helper()
	c.eventually(func() error { return says(c.Delete(c.Context(), o, client.DryRunAll), words...) })
}

func (c cluster) allowed(o client.Object) {
	c.Helper()
	c.eventually(func() error { return c.Delete(c.Context(), o, client.DryRunAll) })
}

func (c cluster) eventually(look func() error) {
	c.Helper()
	if err := env.Await(time.Minute, look); err != nil {
		c.Fatalf("never: %v", err)
	}
}

func (c cluster) allow(o client.Object) {
	c.Helper()
	c.must(c.Patch(c.Context(), o, client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"annotations":{"`+protection.AllowAnnotation+`":"true"}}}`))))
}

func crd(group string, labels map[string]string) *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "databases." + group, Labels: labels},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "databases", Kind: "Database", ListKind: "DatabaseList", Singular: "database"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: new(true),
				}},
				Subresources: &apiextensionsv1.CustomResourceSubresources{
					Status: &apiextensionsv1.CustomResourceSubresourceStatus{},
					Scale:  &apiextensionsv1.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.replicas", StatusReplicasPath: ".status.replicas"},
				},
			}},
		},
	}
}

func TestWhatTakesClaimsAlongIsNotDeletedByASlip(t *testing.T) {
	c := start(t)
	bound := crd("bound.example.org", map[string]string{v1alpha1.ManagedByLabel: v1alpha1.ManagedByKonnector})
	other := crd("other.example.org", nil)
	c.must(c.Create(t.Context(), bound))
	c.must(c.Create(t.Context(), other))
	a, b := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-a"}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-b"}}
	c.must(c.Create(t.Context(), a))
	c.must(c.Create(t.Context(), b))

	t.Run("the definition of a bound API", func(t *testing.T) {
		c.refused(bound, "bound API", "kubectl annotate crd databases.bound.example.org gitbind.dev/allow-deletion=true")
		c.allowed(other)
		c.allow(bound)
		c.allowed(bound)
	})
	t.Run("L2: the definitions of gitbind", func(*testing.T) {
		for _, name := range []string{"apiservicebindings.gitbind.dev", "connections.gitbind.dev"} {
			own := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}}
			c.refused(own, "is one of gitbind", "kubectl annotate crd "+name+" gitbind.dev/allow-deletion=true")
			c.eventually(func() error {
				return says(c.DeleteAllOf(t.Context(), own, client.MatchingFields{"metadata.name": name}, client.DryRunAll), "is one of gitbind")
			})
			c.allow(own)
			c.allowed(own)
		}
		c.allowed(other)
	})
	t.Run("the definitions of a control plane in the same cluster", func(t *testing.T) {
		for _, kind := range []string{"apiserviceexports", "apiserviceexporttemplates", "clusterbindings", "dryruns"} {
			own := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: kind + ".gitbind.dev"}}
			if err := c.Delete(t.Context(), own, client.DryRunAll); err != nil {
				t.Error(err)
			}
		}
	})
	t.Run("a namespace with claims", func(t *testing.T) {
		// Nothing is bound: nothing is protected, and nothing stands in the way.
		c.allowed(a)
		for name, namespaces := range map[string][]string{"caches.bound.example.org": nil, "databases.bound.example.org": {"team-a"}} {
			binding := &v1alpha1.APIServiceBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.APIServiceBindingSpec{Connection: "default"}}
			c.must(c.Create(t.Context(), binding))
			binding.Status.Namespaces = namespaces
			c.must(c.Status().Update(t.Context(), binding))
		}
		c.refused(a, "holds claims (databases.bound.example.org)", "kubectl annotate namespace team-a gitbind.dev/allow-deletion=true")
		c.allowed(b)
		c.allow(a)
		c.allowed(a)
	})
	t.Run("until the last claim is gone", func(t *testing.T) {
		binding := &v1alpha1.APIServiceBinding{}
		c.must(c.Get(t.Context(), client.ObjectKey{Name: "databases.bound.example.org"}, binding))
		binding.Status.Namespaces = []string{"team-b"}
		c.must(c.Status().Update(t.Context(), binding))
		c.refused(b)
		binding.Status.Namespaces = nil
		c.must(c.Status().Update(t.Context(), binding))
		c.allowed(b)
	})
	t.Run("claims that are written in Git", func(t *testing.T) { c.writtenInGit(t, bound, other) })
	t.Run("E9: changes that pass over a review", func(t *testing.T) { c.emergency(t, bound, other) })
}
