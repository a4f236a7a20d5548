package env

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes"
	clientsetfake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/metadata"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/informers"
	"gitbind.dev/gitbridge/informers/informerstest"
	"gitbind.dev/gitbridge/objectwatch"
	"gitbind.dev/gitbridge/selection"
	"gitbind.dev/test/fakeapi"
)

// testFakes has an API server do what the fakes of all tests do.
func testFakes(t *testing.T, c *Cluster) {
	ctx := testContext(t)
	fatal(t, c.Apply(ctx, "kustomize/crds/control-plane"))
	admin, err := client.New(c.Config(), client.Options{Scheme: fakeapi.Scheme()})
	fatal(t, err)
	fatal(t, until(ctx, "our kinds to be served", func(ctx context.Context) (bool, error) {
		err := errors.Join(admin.List(ctx, &v1alpha1.DryRunList{}), admin.List(ctx, &v1alpha1.ClusterBindingList{}))
		return err == nil, err
	}))
	t.Run("objects", func(t *testing.T) { fakeapi.Behave(t, admin) })
	t.Run("refusals", func(t *testing.T) { testRefusals(t, c, admin) })
	t.Run("rights", func(t *testing.T) { testRights(t, admin) })
	t.Run("informers", func(t *testing.T) { testInformers(t, c, admin) })
	t.Run("clientset", func(t *testing.T) { testClientset(t, c) })
	t.Run("metadata", func(t *testing.T) { testMetadata(t, c, admin) })
}

// refusing is what says no to things in one namespace.
func refusing(t *testing.T, admin client.Client) {
	t.Helper()
	in := &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: "refuses"}}
	rule := func(group, resource string) admissionv1.RuleWithOperations {
		return admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Create},
			Rule:       admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: []string{resource}},
		}
	}
	named := metav1.ObjectMeta{Name: "p"}
	held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ends", Name: "held", Finalizers: []string{"example.org/held"}}}
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "refuses"}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ends"}}, held,
		&corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "refuses", Name: "q"}, Spec: corev1.ResourceQuotaSpec{
			Hard: corev1.ResourceList{"count/secrets": resource.MustParse("0")},
		}},
		&admissionv1.ValidatingWebhookConfiguration{ObjectMeta: named, Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "away.example.org", AdmissionReviewVersions: []string{"v1"}, SideEffects: new(admissionv1.SideEffectClassNone), FailurePolicy: new(admissionv1.Fail),
			ClientConfig: admissionv1.WebhookClientConfig{URL: new("https://127.0.0.1:1/")}, NamespaceSelector: in,
			Rules: []admissionv1.RuleWithOperations{rule("", "configmaps")},
		}}},
		&admissionv1.ValidatingAdmissionPolicy{ObjectMeta: named, Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{NamespaceSelector: in, ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: rule(v1alpha1.GroupVersion.Group, "dryruns")}}},
			Validations:      []admissionv1.Validation{{Expression: "false", Message: "nobody may"}},
		}},
		&admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: named, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: "p", ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		}},
	} {
		fatal(t, admin.Create(testContext(t), o))
	}
	fatal(t, admin.Delete(testContext(t), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ends"}}))
	t.Cleanup(func() {
		ctx := context.Background() // The test's own is done.
		held.SetResourceVersion("")
		held.Finalizers = nil
		for _, err := range []error{
			admin.Update(ctx, held), admin.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "refuses"}}),
			admin.Delete(ctx, &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: named}),
		} {
			if err != nil {
				t.Error(err)
			}
		}
	})
}

// testRefusals compares the words and their form, too.
func testRefusals(t *testing.T, c *Cluster, admin client.Client) {
	ctx := testContext(t)
	refusing(t, admin)
	path, err := c.UserKubeconfig("alice")
	fatal(t, err)
	config, err := clientcmd.BuildConfigFromFlags("", path)
	fatal(t, err)
	alice, err := client.New(config, client.Options{Scheme: admin.Scheme()})
	fatal(t, err)

	configMap := func(namespace string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "x"}}
	}
	secret := func(namespace, key string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "x"}, Data: map[string][]byte{key: nil}}
	}
	dryRun := func(namespace string) *v1alpha1.DryRun {
		return &v1alpha1.DryRun{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "x"}, Spec: v1alpha1.DryRunSpec{AskedAt: metav1.Now(), Claims: []v1alpha1.ProposedClaim{}}}
	}
	large := dryRun("default")
	fatal(t, admin.Create(ctx, large))
	large.Status.Claims = []v1alpha1.TriedClaim{{Path: "a", Refused: strings.Repeat("x", 1600<<10)}}
	configMaps, secrets, dryRuns := corev1.Resource("configmaps"), corev1.Resource("secrets"), v1alpha1.GroupVersion.WithResource("dryruns").GroupResource()
	const badKey = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
	for name, refusal := range map[string]struct {
		do   func() error
		want error
	}{
		"a namespace that is not there":  {func() error { return admin.Create(ctx, configMap("nowhere")) }, apierrors.NewNotFound(corev1.Resource("namespaces"), "nowhere")},
		"a namespace that ends":          {func() error { return admin.Create(ctx, configMap("ends")) }, fakeapi.NamespaceEnds(configMaps, "x", "ends")},
		"no right":                       {func() error { return alice.Get(ctx, client.ObjectKey{Namespace: "default", Name: "x"}, secret("", "")) }, apierrors.NewForbidden(secrets, "x", errors.New(`User "alice" cannot get resource "secrets" in API group "" in the namespace "default"`))},
		"a quota":                        {func() error { return admin.Create(ctx, secret("refuses", "a")) }, apierrors.NewForbidden(secrets, "x", errors.New("exceeded quota: q, requested: count/secrets=1, used: count/secrets=0, limited: count/secrets=0"))},
		"a policy":                       {func() error { return admin.Create(ctx, dryRun("refuses")) }, fakeapi.PolicyDenies(dryRuns, "x", "p", "nobody may")},
		"a value":                        {func() error { return admin.Create(ctx, secret("default", "a b")) }, apierrors.NewInvalid(schema.GroupKind{Kind: "Secret"}, "x", field.ErrorList{field.Invalid(field.NewPath("data").Key("a b"), "a b", badKey)})},
		"a webhook that does not answer": {func() error { return admin.Create(ctx, configMap("refuses")) }, fakeapi.WebhookFails("away.example.org", `Post "https://127.0.0.1:1/?timeout=10s": dial tcp 127.0.0.1:1: connect: connection refused`)},
		"a field that the kind has not": {func() error {
			u := watched("undeclared")
			_ = unstructured.SetNestedField(u.Object, "x", "spec", "other")
			data, err := u.MarshalJSON()
			fatal(t, err)
			return admin.Patch(ctx, u, client.RawPatch(types.ApplyPatchType, data), client.FieldOwner("tests"), client.FieldValidation(metav1.FieldValidationStrict))
		}, fakeapi.UndeclaredField(v1alpha1.GroupVersion.WithKind("DryRun"), "default", "undeclared", ".spec.other")},
		"what etcd does not take": {func() error { return admin.Status().Update(ctx, large.DeepCopy()) }, fakeapi.TooLarge()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// What refuses takes a moment to be known.
			if err := Await(30*time.Second, func() error {
				if diff := cmp.Diff(statusOf(refusal.want), statusOf(refusal.do())); diff != "" {
					return errors.New(diff)
				}
				return nil
			}); err != nil {
				t.Errorf("(-want +got) %v", err)
			}
		})
	}
}

// statusOf is what a client may go by.
func statusOf(err error) metav1.Status {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return metav1.Status{Message: fmt.Sprint(err)}
	}
	s := status.Status()
	s.TypeMeta = metav1.TypeMeta{}
	return s
}

func testRights(t *testing.T, admin client.Client) {
	ctx := testContext(t)
	rule := func(verb string, names ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{"gitbind.dev"}, Resources: []string{"apiserviceexports"}, ResourceNames: names}
	}
	rules := []rbacv1.PolicyRule{rule("view"), rule("write", "db", "*:team-a", "db:team-b")}
	named := metav1.ObjectMeta{Namespace: "default", Name: "rights"}
	fatal(t, admin.Create(ctx, &rbacv1.Role{ObjectMeta: named, Rules: rules}))
	fatal(t, admin.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: named, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "rights"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "bob"}},
	}))
	ask := func(a *authorizationv1.ResourceAttributes) (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: "bob", ResourceAttributes: a}}
		err := admin.Create(ctx, review)
		return review.Status.Allowed, err
	}
	attributes := func(verb, resource, name string) *authorizationv1.ResourceAttributes {
		return &authorizationv1.ResourceAttributes{Namespace: "default", Verb: verb, Group: "gitbind.dev", Resource: resource, Name: name}
	}
	fatal(t, until(ctx, "the role to count", func(context.Context) (bool, error) { return ask(attributes("view", "apiserviceexports", "")) }))
	for _, verb := range []string{"view", "write", "approve"} {
		for _, resource := range []string{"apiserviceexports", "dryruns"} {
			for _, name := range []string{"", "db", "*:team-a", "db:team-a", "db:team-b", "other"} {
				a := attributes(verb, resource, name)
				got, err := ask(a)
				if want := fakeapi.Allows(rules, a); err != nil || got != want {
					t.Errorf("%s %s %q: %t, %v; the fake says %t", verb, resource, name, got, err, want)
				}
			}
		}
	}
}

// testInformers compares what is sent to an informer, and what it makes of that.
func testInformers(t *testing.T, c *Cluster, admin client.Client) {
	ctx := testContext(t)
	ours := map[string]string{"watched": "yes"}
	var all [][]byte
	for _, name := range []string{"watched-a", "watched-b", "other"} {
		u := watched(name)
		if name != "other" {
			u.SetLabels(ours)
		}
		fatal(t, admin.Create(ctx, u))
		data, err := u.MarshalJSON()
		fatal(t, err)
		all = append(all, data)
	}
	kind := v1alpha1.GroupVersion.WithKind("DryRun")
	resource := v1alpha1.GroupVersion.WithResource("dryruns")
	fake := informerstest.Serve(t, kind.GroupVersion().String(), kind.Kind, slices.Values(all))
	older := informerstest.ServeList(t, kind.GroupVersion().String(), kind.Kind, slices.Values(all))
	server := c.Config()

	for name, config := range map[string]*rest.Config{"a fake that lists": older, "a fake": fake, "the API server": server} {
		informer, err := informers.New(config, resource, labels.SelectorFromSet(ours), func(data []byte) (client.Object, error) {
			m := &metav1.PartialObjectMetadata{}
			return m, json.Unmarshal(data, m)
		})
		fatal(t, err)
		go informer.RunWithContext(ctx)
		select {
		case <-informer.HasSyncedChecker().Done():
		case <-ctx.Done():
			t.Fatalf("%s: the list does not end", name)
		}
		keys := informer.GetStore().ListKeys()
		if slices.Sort(keys); !slices.Equal(keys, []string{"default/watched-a", "default/watched-b"}) {
			t.Errorf("%s: kept is %v", name, keys)
		}
	}

	const watch = "&watch=true&allowWatchBookmarks=true&sendInitialEvents=true"
	for _, q := range []struct {
		name, real, fake string
		from             *rest.Config
	}{
		{"a list that is sent to a watcher", watch + "&resourceVersionMatch=NotOlderThan", watch + "&resourceVersionMatch=NotOlderThan", fake},
		{"a list", "", "", older},
		// An API server without such lists refuses them in the form of one that is asked wrongly.
		{"a refusal", watch, watch + "&resourceVersionMatch=NotOlderThan", older},
	} {
		if diff := cmp.Diff(sent(t, server, q.real), sent(t, q.from, q.fake)); diff != "" {
			t.Errorf("%s (-real +fake): %s", q.name, diff)
		}
	}
}

// watched is an object that is applied or watched.
func watched(name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"branch": "b", "change": map[string]any{"head": "h", "effect": "e"}, "askedAt": "2026-11-24T12:00:00Z", "claims": []any{},
	}}}
	u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("DryRun"))
	u.SetNamespace("default")
	u.SetName(name)
	return u
}

// sent is what is answered to who asks for the objects with our label, up to the end of the
// list: of each object who it is. Versions are there or not.
func sent(t *testing.T, config *rest.Config, query string) (out []any) {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	fatal(t, err)
	r, err := http.NewRequestWithContext(testContext(t), http.MethodGet, config.Host+"/apis/gitbind.dev/v1alpha1/dryruns?labelSelector=watched%3Dyes"+query, nil)
	fatal(t, err)
	answer, err := client.Do(r)
	fatal(t, err)
	defer answer.Body.Close()
	out = append(out, answer.StatusCode, answer.Header.Get("Content-Type"))
	for lines := json.NewDecoder(answer.Body); ; {
		var line map[string]any
		if err := lines.Decode(&line); errors.Is(err, io.EOF) {
			return out
		} else if err != nil {
			t.Fatal(err)
		}
		out = append(out, known(line))
		if line["type"] == "BOOKMARK" {
			return out
		}
	}
}

// known is the part of an answer that is the same at each server. A refusal's words are not.
func known(v map[string]any) map[string]any {
	out := map[string]any{}
	for _, name := range []string{"type", "apiVersion", "kind", "status", "reason", "code"} {
		if word, ok := v[name]; ok {
			out[name] = word
		}
	}
	if m, ok := v["metadata"].(map[string]any); ok {
		version, _ := m["resourceVersion"].(string)
		out["metadata"] = []any{m["name"], m["namespace"], m["uid"], m["annotations"], version != ""}
	}
	if o, ok := v["object"].(map[string]any); ok {
		out["object"] = known(o)
	}
	if items, ok := v["items"].([]any); ok {
		var all []any
		for _, i := range items {
			all = append(all, known(i.(map[string]any)))
		}
		out["items"] = all
	}
	return out
}

// testClientset has the same of a fake clientset and of one of an API server: who is there, and
// by which labels.
func testClientset(t *testing.T, c *Cluster) {
	ctx := testContext(t)
	reason := func(err error) string { return string(apierrors.ReasonForError(err)) }
	for name, client := range map[string]kubernetes.Interface{"a fake": clientsetfake.NewClientset(), "the API server": clientFor(t, c.Kubeconfig)} {
		all := client.CoreV1().Namespaces()
		var got []string
		says := func(err error) { got = append(got, reason(err)) }
		_, err := all.Get(ctx, "of-a", metav1.GetOptions{})
		says(err)
		for _, of := range []string{"a", "a", "b"} {
			_, err := all.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "of-" + of, Labels: map[string]string{"of": of}}}, metav1.CreateOptions{})
			says(err)
		}
		list, err := all.List(ctx, metav1.ListOptions{LabelSelector: "of=a"})
		says(err)
		for _, n := range list.Items {
			got = append(got, n.Name)
		}
		_, err = client.CoreV1().Secrets("of-a").Get(ctx, "x", metav1.GetOptions{})
		says(err)
		_, err = client.CoreV1().Secrets("of-a").Update(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.UpdateOptions{})
		says(err)
		if diff := cmp.Diff([]string{"NotFound", "", "AlreadyExists", "", "", "of-a", "NotFound", "NotFound"}, got); diff != "" {
			t.Errorf("%s: (-want +got) %s", name, diff)
		}
	}
}

// testMetadata has the same seen of Secrets by who watches their metadata with a fake client
// and with one of an API server.
func testMetadata(t *testing.T, c *Cluster, admin client.Client) {
	secrets := corev1.SchemeGroupVersion.WithResource("secrets")
	object := func(name string, labels map[string]string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "watched", Name: name, Labels: labels},
		}
	}
	secret := func(o *metav1.PartialObjectMetadata) *corev1.Secret { return &corev1.Secret{ObjectMeta: o.ObjectMeta} }
	ctx := testContext(t)
	createNamespace(t, clientFor(t, c.Kubeconfig), "watched")

	scheme := metadatafake.NewTestScheme()
	fatal(t, metav1.AddMetaToScheme(scheme))
	fake := metadatafake.NewSimpleMetadataClient(scheme)
	in := fake.Resource(secrets).Namespace("watched").(metadatafake.MetadataClient)
	server, err := metadata.NewForConfig(c.Config())
	fatal(t, err)
	for name, w := range map[string]struct {
		client                 metadata.Interface
		create, update, remove func(*metav1.PartialObjectMetadata) error
	}{
		"a fake": {
			fake,
			func(o *metav1.PartialObjectMetadata) error {
				_, err := in.CreateFake(o, metav1.CreateOptions{})
				return err
			},
			func(o *metav1.PartialObjectMetadata) error {
				_, err := in.UpdateFake(o, metav1.UpdateOptions{})
				return err
			},
			func(o *metav1.PartialObjectMetadata) error { return in.Delete(ctx, o.Name, metav1.DeleteOptions{}) },
		},
		"the API server": {
			server,
			func(o *metav1.PartialObjectMetadata) error { return admin.Create(ctx, secret(o)) },
			func(o *metav1.PartialObjectMetadata) error { return admin.Update(ctx, secret(o)) },
			func(o *metav1.PartialObjectMetadata) error { return admin.Delete(ctx, secret(o)) },
		},
	} {
		told := make(chan string, 100)
		watching, stop := context.WithCancel(ctx)
		watches := objectwatch.New(watching, w.client, secrets, func(id string) { told <- id })
		next := func(what string) {
			t.Helper()
			select {
			case <-told:
			case <-ctx.Done():
				t.Fatalf("%s: %s is not told", name, what)
			}
		}
		of := []selection.Selection{{Labels: map[string]string{"of": "x"}}}
		sees := func(want ...string) {
			t.Helper()
			found, err := watches.Find("watched", "id", of)
			if got := slices.Sorted(maps.Keys(found)); err != nil || !slices.Equal(got, want) {
				t.Errorf("%s: found %v, %v, want %v", name, got, err, want)
			}
		}
		fatal(t, w.create(object("a", of[0].Labels)))
		fatal(t, w.create(object("b", nil)))
		if _, err := watches.Find("watched", "id", of); !errors.Is(err, objectwatch.ErrNotKnown) {
			t.Errorf("%s: before anything is known: %v", name, err)
		}
		next("the list")
		sees("a")
		fatal(t, w.update(object("b", of[0].Labels)))
		next("a label")
		sees("a", "b")
		fatal(t, w.update(object("a", nil)))
		next("the end of a label")
		sees("b")
		fatal(t, w.remove(object("b", nil)))
		next("the end of an object")
		sees()
		stop()
		watches.Wait()
	}
}
