package app_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/app"
	"gitbind.dev/test/env"
	"gitbind.dev/test/fakeapi"
)

// world is a control plane, a Git host, and the bridge between them with no more
// than its ServiceAccount's rights.
type world struct {
	*testing.T
	root   *testing.T
	env    *env.Env
	admin  client.Client
	host   *host
	bridge *bridge
}

// newWorld is a world of its own for a test, which runs beside the others of the
// package.
func newWorld(t *testing.T) *world {
	t.Parallel()
	return newWorldIn(t, controlPlanes.Take(t).Env)
}

func newWorldIn(t *testing.T, e *env.Env) *world {
	w := &world{T: t, root: t, bridge: &bridge{stop: func() {}}, env: e, host: newHost(t)}
	var err error
	w.admin, err = client.New(w.control().Config(), client.Options{Scheme: fakeapi.Scheme()})
	w.must(err)
	return w
}

func (w *world) control() *env.Cluster { return w.env.Cluster(env.Control) }

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// applyFile applies the documents of a file.
func (w *world) applyFile(file string) {
	w.Helper()
	data, err := os.ReadFile(file)
	w.must(err)
	for _, document := range strings.Split(string(data), "\n---\n") {
		u := &unstructured.Unstructured{}
		w.must(yaml.Unmarshal([]byte(document), &u.Object))
		w.must(w.apply(u))
	}
}

func (w *world) apply(u *unstructured.Unstructured) error {
	return w.admin.Apply(w.Context(), client.ApplyConfigurationFromUnstructured(u.DeepCopy()), client.FieldOwner("operator"), client.ForceOwnership)
}

// define installs a definition from a file and offers its API.
func (w *world) define(file string) v1alpha1.ExportedAPI {
	w.Helper()
	crd := w.createDefinition(file)
	api := v1alpha1.ExportedAPI{Group: crd.Spec.Group, Version: "v1", Resource: crd.Spec.Names.Plural}
	w.must(w.admin.Create(w.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "offer-" + crd.Name, Labels: map[string]string{v1alpha1.LabelOffered: "true"}},
		Rules:      []rbacv1.PolicyRule{rights(api)},
	}))
	w.awaitOffer(api)
	return api
}

// createDefinition installs a definition from a file.
func (w *world) createDefinition(file string) *apiextensionsv1.CustomResourceDefinition {
	w.Helper()
	data, err := os.ReadFile(file)
	w.must(err)
	var crd apiextensionsv1.CustomResourceDefinition
	w.must(yaml.Unmarshal(data, &crd))
	crd.ObjectMeta = metav1.ObjectMeta{Name: crd.Name}
	crd.Status = apiextensionsv1.CustomResourceDefinitionStatus{}
	w.must(w.admin.Create(w.Context(), &crd))
	return &crd
}

// awaitOffer offers an API, and waits until it is served, and its rights can be
// handed on.
func (w *world) awaitOffer(api v1alpha1.ExportedAPI) {
	w.Helper()
	w.must(w.admin.Create(w.Context(), &v1alpha1.APIServiceExportTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: api.BindingName()}, Spec: v1alpha1.APIServiceExportTemplateSpec{API: api},
	}))
	w.eventually("the API is served, and its rights can be handed on", func() error {
		var got apiextensionsv1.CustomResourceDefinition
		if err := w.admin.Get(w.Context(), client.ObjectKey{Name: api.BindingName()}, &got); err != nil {
			return err
		}
		var role rbacv1.ClusterRole
		if err := w.admin.Get(w.Context(), client.ObjectKey{Name: v1alpha1.OfferedAPIs}, &role); err != nil {
			return err
		}
		established := slices.ContainsFunc(got.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
			return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
		})
		if !established || !slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, api.Resource) }) {
			return errors.New("not yet")
		}
		return nil
	})
}

func rights(api v1alpha1.ExportedAPI) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{api.Group}, Resources: []string{api.Resource}, Verbs: []string{"get", "list", "watch", "create", "update", "patch", "delete"}}
}

// bridge is a running gitbridge.
type bridge struct {
	health, metrics string
	began           time.Time
	stop            func()
}

func (w *world) startBridge() {
	w.Helper()
	w.startBridgeWith(app.Options{})
}

func (w *world) startBridgeWith(o app.Options) {
	w.Helper()
	path, err := w.control().KubeconfigFor(w.Context(), v1alpha1.SystemNamespace, v1alpha1.BridgeServiceAccount)
	w.must(err)
	config, err := clientcmd.BuildConfigFromFlags("", path)
	w.must(err)
	o.HealthListen, o.MetricsListen, o.Workers = env.FreeAddress(w), cmp.Or(o.MetricsListen, "0"), cmp.Or(o.Workers, 8)
	if o.BackendURL == "" {
		o.BackendURL = w.host.Server.URL
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- app.Run(ctx, config, o) }()
	*w.bridge = bridge{health: "http://" + o.HealthListen, began: time.Now(), stop: sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				w.root.Errorf("the bridge ended with %v", err)
			}
		case <-time.After(time.Minute):
			w.root.Error("the bridge did not end")
		}
	})}
	w.root.Cleanup(w.bridge.stop)
}

// ready is what a readiness check says.
func (b *bridge) ready(check string) int {
	res, err := http.Get(b.health + "/readyz" + check) //nolint:noctx // a local one
	if err != nil {
		return 0
	}
	_ = res.Body.Close()
	return res.StatusCode
}

// names are those of all objects of a kind, "<apiVersion> <kind>".
func (w *world) names(gvk string) map[string]string {
	w.Helper()
	out := map[string]string{}
	version, kind, _ := strings.Cut(gvk, " ")
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(version)
	list.SetKind(kind + "List")
	w.must(w.admin.List(w.Context(), list))
	for _, u := range list.Items {
		out[kind+" "+u.GetNamespace()+"/"+u.GetName()] = u.GetResourceVersion()
	}
	return out
}

// patience is for a machine on which others work, too. It is less than the time
// between two polls, which would do what an event is to do. A bridge that begins
// follows all tenants of the world again, which takes longer.
const patience, patienceAtStart = 45 * time.Second, 2 * time.Minute

// patienceForMany is for what takes long because there is so much of it, and for what waits
// longer by itself: the longest pause of who tries again, or the end of a Lease.
const patienceForMany = 4 * time.Minute

func (w *world) eventually(what string, check func() error) {
	w.Helper()
	w.eventuallyIn(max(patience, time.Until(w.bridge.began.Add(patienceAtStart))), what, check)
}

func (w *world) eventuallyIn(patience time.Duration, what string, check func() error) {
	w.Helper()
	if err := env.Await(patience, check); err != nil {
		w.Fatalf("not within %s: %s: %v", patience, what, err)
	}
}

func credentials(password string) func(context.Context) (string, string, error) {
	return func(context.Context) (string, string, error) { return "somebody", password, nil }
}

var kinds = map[string]string{"postgresqlinstances.anynines.com": "PostgresqlInstance", "caches.example.org": "Cache", "widgets.example.net": "Widget", "gadgets.example.net": "Gadget", "brokers.example.net": "Broker"}

// path is where a claim of an API lies.
func path(api v1alpha1.ExportedAPI, namespace, name string) string {
	return contract.Key{Binding: api.BindingName(), Namespace: namespace, Name: name}.Path()
}

// manifest is a claim file.
func manifest(path, spec string) string {
	key, err := contract.ParsePath(path)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf("apiVersion: %s/v1\nkind: %s\nmetadata:\n  name: %s\n  namespace: %s\nspec:\n%s\n", key.Group(), kinds[key.Binding], key.Name, key.Namespace, spec)
}
