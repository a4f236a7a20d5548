package attribution_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/policies/attribution"
	"gitbind.dev/test/env"
	"gitbind.dev/test/fakeapi"
)

const (
	base      = v1alpha1.BaseAnnotation
	changedBy = v1alpha1.ChangedByAnnotation
	finalizer = v1alpha1.Finalizer
	deletion  = "gitbind.dev/allow-deletion"
)

var databases = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Database"}

// cluster is an app cluster with one bound API and one that is not bound.
type cluster struct {
	kubectl                              string
	alice, bob, mallory, konnector, root user
}

type user struct {
	client.Client
	kubeconfig string
}

func start(t *testing.T) cluster {
	t.Helper()
	e := env.StartForTest(t, env.Options{Clusters: []string{env.App}, NoControllerManager: true})
	app := e.Cluster(env.App)
	c := cluster{kubectl: e.Kubectl, root: newUser(t, app.Kubeconfig)}
	for name, u := range map[string]*user{"alice": &c.alice, "bob": &c.bob, "mallory\nalice": &c.mallory} {
		kubeconfig, err := app.UserKubeconfig(name, "system:masters")
		if err != nil {
			t.Fatal(err)
		}
		*u = newUser(t, kubeconfig)
	}
	c.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "gitbind-system"}})
	c.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-a"}})
	c.create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "gitbind-system", Name: "konnector"}})
	kubeconfig, err := app.KubeconfigFor(t.Context(), "gitbind-system", "konnector")
	if err != nil {
		t.Fatal(err)
	}
	c.konnector = newUser(t, kubeconfig)
	c.create(t, decode(t, konnectorRights))
	c.create(t, decode(t, konnectorRightsBinding))
	c.create(t, crd("databases", "Database"))
	c.create(t, crd("caches", "Cache"))
	policy, err := os.ReadFile("policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c.create(t, decode(t, string(policy)))
	c.create(t, attribution.ForBinding("example.com", "databases"))
	c.waitForPolicy(t)
	return c
}

const konnectorRights = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: databases}
rules: [{apiGroups: [example.com], resources: ["*"], verbs: ["*"]}]`

const konnectorRightsBinding = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: databases}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: databases}
subjects: [{kind: ServiceAccount, namespace: gitbind-system, name: konnector}]`

func newUser(t *testing.T, kubeconfig string) user {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	c, err := client.New(config, client.Options{Scheme: fakeapi.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return user{Client: c, kubeconfig: kubeconfig}
}

func crd(plural, kind string) *apiextensionsv1.CustomResourceDefinition {
	object := func(p map[string]apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Type: "object", Properties: p}
	}
	str := apiextensionsv1.JSONSchemaProps{Type: "string"}
	expose := apiextensionsv1.JSONSchemaProps{Type: "string", Default: &apiextensionsv1.JSON{Raw: []byte(`"Internal"`)}}
	root := object(map[string]apiextensionsv1.JSONSchemaProps{
		"spec":   object(map[string]apiextensionsv1.JSONSchemaProps{"plan": str, "expose": expose}),
		"status": object(map[string]apiextensionsv1.JSONSchemaProps{"phase": str}),
	})
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + ".example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Kind: kind, ListKind: kind + "List", Singular: strings.ToLower(kind)},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema:       &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &root},
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			}},
		},
	}
}

func decode(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(manifest), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

func (c cluster) create(t *testing.T, o client.Object) {
	t.Helper()
	if err := c.root.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

// waitForPolicy waits until a dry run shows the policy's work: the API server
// takes up to some seconds to see a new policy and a new CRD.
func (c cluster) waitForPolicy(t *testing.T) {
	t.Helper()
	began := time.Now()
	c.namesWhoCreates(t, func() client.Object { return database("probe") })
	t.Logf("the policy works after %s", time.Since(began).Round(time.Millisecond))
}

// namesWhoCreates waits until an object that is created, as a dry run, names who did that.
func (c cluster) namesWhoCreates(t *testing.T, object func() client.Object) {
	t.Helper()
	if err := env.Await(time.Minute, func() error {
		o := object()
		if err := c.root.Create(t.Context(), o, client.DryRunAll); err != nil {
			return err
		}
		if o.GetAnnotations()[changedBy] == "" {
			return errors.New("nobody is named")
		}
		return nil
	}); err != nil {
		t.Fatalf("the policy does not work: %v", err)
	}
}

func database(name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"plan": "small"}}}
	u.SetGroupVersionKind(databases)
	u.SetNamespace("team-a")
	u.SetName(name)
	return u
}

// get reads the object as it is stored.
func (c cluster) get(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	u := database(name)
	if err := c.root.Get(t.Context(), client.ObjectKeyFromObject(u), u); err != nil {
		t.Fatal(err)
	}
	return u
}

// want compares all annotations and finalizers of a stored object.
func (c cluster) want(t *testing.T, name string, annotations map[string]string) {
	t.Helper()
	u := c.get(t, name)
	if diff := cmp.Diff(annotations, u.GetAnnotations()); diff != "" {
		t.Errorf("annotations of %s (-want +got):\n%s", name, diff)
	}
	if diff := cmp.Diff([]string{finalizer}, u.GetFinalizers()); diff != "" {
		t.Errorf("finalizers of %s (-want +got):\n%s", name, diff)
	}
}

func (u user) create(t *testing.T, o client.Object) {
	t.Helper()
	if err := u.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

// update reads the object, changes it and writes it back.
func (u user) update(t *testing.T, name string, change func(*unstructured.Unstructured)) {
	t.Helper()
	o := database(name)
	if err := u.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		t.Fatal(err)
	}
	change(o)
	if err := u.Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

func (c cluster) kubectlAs(t *testing.T, u user, stdin string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), c.kubectl, append([]string{"--kubeconfig", u.kubeconfig}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
}

func setPlan(plan string) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) {
		if err := unstructured.SetNestedField(u.Object, plan, "spec", "plan"); err != nil {
			panic(err) // the spec is an object
		}
	}
}

func annotate(key, value string) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) {
		a := u.GetAnnotations()
		if a == nil {
			a = map[string]string{}
		}
		a[key] = value
		u.SetAnnotations(a)
	}
}

func TestAttribution(t *testing.T) {
	c := start(t)

	t.Run("the creator is named and the finalizer is on", func(t *testing.T) {
		c.alice.create(t, database("plain"))
		c.want(t, "plain", map[string]string{changedBy: "alice"})
	})
	t.Run("other finalizers and annotations stay", func(t *testing.T) {
		o := database("others")
		o.SetFinalizers([]string{"example.com/other"})
		o.SetAnnotations(map[string]string{"example.com/note": "x"})
		c.alice.create(t, o)
		got := c.get(t, "others")
		if diff := cmp.Diff([]string{"example.com/other", finalizer}, got.GetFinalizers()); diff != "" {
			t.Error(diff)
		}
		if got.GetAnnotations()["example.com/note"] != "x" {
			t.Error("an annotation is gone")
		}
	})
	t.Run("forged annotations are dropped at creation", func(t *testing.T) {
		o := database("forged")
		o.SetAnnotations(map[string]string{changedBy: "bob", base: "eJw", "gitbind.dev/anything": "x", deletion: "true"})
		o.SetFinalizers([]string{finalizer})
		c.alice.create(t, o)
		c.want(t, "forged", map[string]string{changedBy: "alice", deletion: "true"})
	})
	t.Run("a second user is added, once, in order", func(t *testing.T) {
		c.alice.create(t, database("second"))
		c.bob.update(t, "second", setPlan("big"))
		c.want(t, "second", map[string]string{changedBy: "alice\nbob"})
		c.alice.update(t, "second", setPlan("medium"))
		c.bob.update(t, "second", setPlan("small"))
		c.want(t, "second", map[string]string{changedBy: "alice\nbob"})
	})
	t.Run("labels and annotations of the claim count, those of machines do not", func(t *testing.T) {
		c.alice.create(t, database("labels"))
		c.konnector.update(t, "labels", annotate(changedBy, ""))
		for _, key := range []string{"kubectl.kubernetes.io/restartedAt", "argocd.argoproj.io/tracking-id", "app.kubernetes.io/instance", deletion} {
			c.bob.update(t, "labels", annotate(key, "x"))
			if got := c.get(t, "labels").GetAnnotations()[changedBy]; got != "" {
				t.Errorf("after a change of %s: changed by %q", key, got)
			}
		}
		c.bob.update(t, "labels", annotate("app.kubernetes.io/part-of", "shop"))
		if got := c.get(t, "labels").GetAnnotations()[changedBy]; got != "bob" {
			t.Errorf("after a change of an annotation: changed by %q", got)
		}
		c.alice.update(t, "labels", func(u *unstructured.Unstructured) { u.SetLabels(map[string]string{"team": "a"}) })
		if got := c.get(t, "labels").GetAnnotations()[changedBy]; got != "bob\nalice" {
			t.Errorf("after a change of a label: changed by %q", got)
		}
	})
	t.Run("what changes nothing does not count, nor write", func(t *testing.T) {
		c.alice.create(t, database("noop"))
		before := c.get(t, "noop")
		c.bob.update(t, "noop", func(*unstructured.Unstructured) {})
		if after := c.get(t, "noop"); after.GetResourceVersion() != before.GetResourceVersion() {
			t.Errorf("an update of nothing wrote the object: %v", after.Object)
		}
		o := database("noop")
		if err := c.bob.Patch(t.Context(), o, client.RawPatch("application/merge-patch+json", []byte(`{"status":{"phase":"Up"}}`))); err != nil {
			t.Fatal(err)
		}
		o = c.get(t, "noop")
		if err := unstructured.SetNestedField(o.Object, "Up", "status", "phase"); err != nil {
			t.Fatal(err)
		}
		if err := c.bob.Status().Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		c.bob.update(t, "noop", func(u *unstructured.Unstructured) {
			u.SetFinalizers(append(u.GetFinalizers(), "example.com/other"))
		})
		c.bob.update(t, "noop", func(u *unstructured.Unstructured) { u.SetFinalizers([]string{finalizer}) })
		c.want(t, "noop", map[string]string{changedBy: "alice"})
	})
	t.Run("nobody but the konnector changes our annotations", func(t *testing.T) {
		c.alice.create(t, database("guarded"))
		c.konnector.update(t, "guarded", annotate(base, "eJw"))
		for _, change := range []func(*unstructured.Unstructured){
			annotate(base, "other"), annotate(changedBy, "carol"), annotate(changedBy, ""), annotate("gitbind.dev/new", "x"),
			func(u *unstructured.Unstructured) { u.SetAnnotations(nil) },
			func(u *unstructured.Unstructured) { u.SetFinalizers(nil) },
		} {
			c.bob.update(t, "guarded", change)
			c.want(t, "guarded", map[string]string{changedBy: "alice", base: "eJw"})
		}
		if err := c.bob.Patch(t.Context(), database("guarded"), client.RawPatch("application/json-patch+json",
			[]byte(`[{"op":"remove","path":"/metadata/annotations"},{"op":"replace","path":"/spec/plan","value":"big"}]`))); err != nil {
			t.Fatal(err)
		}
		c.want(t, "guarded", map[string]string{changedBy: "alice\nbob", base: "eJw"})
	})
	t.Run("people's own annotation can be set and removed", func(t *testing.T) {
		c.alice.create(t, database("people"))
		c.bob.update(t, "people", annotate(deletion, "true"))
		c.want(t, "people", map[string]string{changedBy: "alice", deletion: "true"})
		c.bob.update(t, "people", annotate("gitbind.dev/resolve", "file.0123456789"))
		c.bob.update(t, "people", annotate("gitbind.dev/pause", "true"))
		c.bob.update(t, "people", annotate("gitbind.dev/emergency", "disk full"))
		c.want(t, "people", map[string]string{
			changedBy: "alice", deletion: "true", "gitbind.dev/resolve": "file.0123456789", "gitbind.dev/pause": "true", "gitbind.dev/emergency": "disk full",
		})
		c.bob.update(t, "people", func(u *unstructured.Unstructured) { u.SetAnnotations(nil) })
		c.want(t, "people", map[string]string{changedBy: "alice"})
	})
	t.Run("the konnector's writes stand", func(t *testing.T) {
		o := database("konnector")
		o.SetFinalizers([]string{finalizer})
		o.SetAnnotations(map[string]string{base: "v1"})
		c.konnector.create(t, o)
		c.want(t, "konnector", map[string]string{base: "v1"})
		c.bob.update(t, "konnector", setPlan("big"))
		c.want(t, "konnector", map[string]string{base: "v1", changedBy: "bob"})
		c.konnector.update(t, "konnector", func(u *unstructured.Unstructured) {
			u.SetAnnotations(map[string]string{base: "v2"})
		})
		c.want(t, "konnector", map[string]string{base: "v2"})
		c.alice.update(t, "konnector", setPlan("small"))
		c.want(t, "konnector", map[string]string{base: "v2", changedBy: "alice"})
		c.konnector.update(t, "konnector", func(u *unstructured.Unstructured) {
			u.SetAnnotations(nil)
			u.SetFinalizers(nil)
		})
		if got := c.get(t, "konnector"); len(got.GetAnnotations())+len(got.GetFinalizers()) != 0 {
			t.Errorf("the konnector's write was changed: %v", got.Object["metadata"])
		}
		c.bob.update(t, "konnector", func(u *unstructured.Unstructured) { u.SetLabels(map[string]string{"a": "b"}) })
		if got := c.get(t, "konnector"); len(got.GetFinalizers()) != 0 {
			t.Error("an update put back the finalizer that the konnector took off")
		}
	})
	t.Run("server-side apply", func(t *testing.T) {
		apply := func(u user, plan string, annotations map[string]string) {
			t.Helper()
			o := database("applied")
			setPlan(plan)(o)
			o.SetAnnotations(annotations)
			if err := u.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("test"), client.ForceOwnership); err != nil {
				t.Fatal(err)
			}
		}
		apply(c.alice, "small", map[string]string{base: "forged", "team": "a"})
		c.want(t, "applied", map[string]string{changedBy: "alice", "team": "a"})
		rv := c.get(t, "applied").GetResourceVersion()
		apply(c.bob, "small", map[string]string{base: "forged", "team": "a"})
		if got := c.get(t, "applied").GetResourceVersion(); got != rv {
			t.Error("applying the same again wrote the object")
		}
		apply(c.bob, "big", nil)
		c.want(t, "applied", map[string]string{changedBy: "alice\nbob"})
	})
	t.Run("kubectl apply, replace, label", func(t *testing.T) {
		const manifest = "apiVersion: example.com/v1\nkind: Database\nmetadata:\n  name: kubectl\n  namespace: team-a\n  annotations:\n  labels: null\nspec:\n  plan: PLAN\n"
		c.kubectlAs(t, c.alice, strings.Replace(manifest, "PLAN", "small", 1), "create", "-f", "-")
		c.want(t, "kubectl", map[string]string{changedBy: "alice"})
		c.konnector.update(t, "kubectl", func(u *unstructured.Unstructured) { u.SetAnnotations(map[string]string{base: "v1"}) })
		c.kubectlAs(t, c.bob, strings.Replace(manifest, "PLAN", "big", 1), "replace", "-f", "-")
		c.want(t, "kubectl", map[string]string{base: "v1", changedBy: "bob"})
		c.kubectlAs(t, c.alice, strings.Replace(manifest, "PLAN", "medium", 1), "apply", "-f", "-")
		c.kubectlAs(t, c.alice, "", "annotate", "-n", "team-a", "database", "kubectl", "kubectl.kubernetes.io/last-applied-configuration-")
		c.kubectlAs(t, c.alice, "", "annotate", "-n", "team-a", "database", "kubectl", base+"-", changedBy+"-")
		c.want(t, "kubectl", map[string]string{base: "v1", changedBy: "bob\nalice"})
	})
	t.Run("a user's name with a line break is one user", func(t *testing.T) {
		c.mallory.create(t, database("mallory"))
		c.want(t, "mallory", map[string]string{changedBy: "mallory alice"})
	})
	t.Run("a delete is not touched, and a terminating object can be released", func(t *testing.T) {
		c.alice.create(t, database("deleted"))
		o := database("deleted")
		if err := c.bob.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		c.want(t, "deleted", map[string]string{changedBy: "alice"})
		if c.get(t, "deleted").GetDeletionTimestamp() == nil {
			t.Fatal("is not terminating")
		}
		c.bob.update(t, "deleted", func(u *unstructured.Unstructured) { u.SetFinalizers(nil) })
		if err := c.root.Get(t.Context(), client.ObjectKeyFromObject(o), o); !apierrors.IsNotFound(err) {
			t.Fatalf("want it to be gone: %v", err)
		}
	})
	t.Run("another kind is not touched", func(t *testing.T) {
		o := database("cache")
		o.SetKind("Cache")
		o.SetAnnotations(map[string]string{base: "x"})
		c.alice.create(t, o)
		if diff := cmp.Diff(map[string]string{base: "x"}, o.GetAnnotations()); diff != "" || len(o.GetFinalizers()) > 0 {
			t.Errorf("was changed: %v", o.Object["metadata"])
		}
	})
	t.Run("who asks for an API is named", c.testBindings)
}
