package apiservicebinding

import (
	"context"
	"net/http"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	webhookerrors "k8s.io/apiserver/pkg/admission/plugin/webhook/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/test/fakeapi"
)

// An API goes on by the definition that it has where a newer one cannot be installed, also after
// a restart.
func TestAnAPIWorksByTheDefinitionThatThereIs(t *testing.T) {
	t.Parallel()
	for reason, answer := range map[string]error{
		"CRDRefused":      webhookerrors.ToStatusErr("hook.example.org", &metav1.Status{Message: "not on a Friday"}),
		"CRDNotInstalled": fakeapi.WebhookFails("hook.example.org", "no route"),
	} {
		w := newWorld(t)
		w.granted(func(e *v1alpha1.APIServiceExport) { e.Status.Changes = v1alpha1.ChangesPullRequest })
		w.crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["old"] = apiextensionsv1.JSONSchemaProps{Type: "string"}
		if err := w.Client.Update(t.Context(), w.crd); err != nil {
			t.Fatal(err)
		}
		w.binding.Annotations = map[string]string{}
		w.Client = interceptor.NewClient(w.Client.(client.WithWatch), interceptor.Funcs{
			Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
				if _, ok := o.(*apiextensionsv1.CustomResourceDefinition); ok {
					return answer
				}
				return c.Update(ctx, o, opts...)
			},
		})
		api, missing, err := w.bind(t.Context(), w.look())
		if err != nil || missing == nil || missing.reason != reason || !api.Review || !w.isRunning() {
			t.Errorf("%s: %+v, %v; reviewed: %v, running: %v", reason, missing, err, api.Review, w.isRunning())
		}
	}
}

// Claims go on by the definition that there is where the export was withdrawn, also after a
// restart: nobody would commit their edits, or let go of those that are deleted.
func TestAnAPIGoesOnWithoutItsExport(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"", "PostgresqlInstance"} {
		w := newWorld(t)
		w.granted(nil)
		w.binding.Status.Kind = kind
		w.put("status", map[string]string{contract.ExportPath(binding): ""})
		l := w.look()
		_, missing, err := w.bind(t.Context(), l)
		if want := kind != ""; err != nil || missing == nil || missing.reason != "WaitingForExport" || w.isRunning() != want {
			t.Errorf("kept in step %v: %+v, %v; running: %v", want, missing, err, w.isRunning())
		}
		if l.schema != nil {
			t.Errorf("it says which definition is the newest: %+v", l.schema)
		}
		// What is being unbound cannot be bound again before that is done.
		const advice = "kubectl gitbind bind"
		advised := strings.Contains(missing.message, advice)
		l.facts.Terminating = true
		if m := l.notGranted(contract.ExportPath(binding)).message; !advised || strings.Contains(m, advice) {
			t.Errorf("it says %q, and while it is being unbound %q", missing.message, m)
		}
	}
}

// Claims go on by the definition and the terms that there are where the export cannot be used, also
// after a restart; but what it asks of reviews counts at once.
func TestAnAPIGoesOnThoughItsExportIsInvalid(t *testing.T) {
	t.Parallel()
	valid := func(changes v1alpha1.Changes) string {
		return string(export(t, postgresql(), func(e *v1alpha1.APIServiceExport) { e.Status.Changes = changes }))
	}
	clusterScoped := func(changes v1alpha1.Changes) string {
		return strings.Replace(valid(changes), "scope: Namespaced", "scope: Cluster", 1)
	}
	direct, reviewed := v1alpha1.ChangesDirect, v1alpha1.ChangesPullRequest
	for name, tc := range map[string]struct {
		was    v1alpha1.Changes
		export string
		ready  bool
		review bool
	}{
		"no YAML":                                {was: direct, export: "}"},
		"no YAML, reviewed before":               {was: reviewed, export: "}", review: true},
		"refused":                                {was: direct, export: clusterScoped("")},
		"refused, reviewed before":               {was: reviewed, export: clusterScoped(direct), review: true},
		"refused, reviewed from now on":          {was: direct, export: clusterScoped(reviewed), review: true},
		"refused, in a way that is not known":    {was: direct, export: clusterScoped("TwoPersons"), review: true},
		"changes that are no text":               {was: direct, export: strings.Replace(valid(reviewed), "changes: PullRequest", "changes: {by: two}", 1), review: true},
		"reviewed in a way that is not known":    {was: direct, export: valid("TwoPersons"), ready: true, review: true},
		"reviewed, and direct from now on":       {was: reviewed, export: valid(direct), ready: true},
		"reviewed, and nothing is said of it":    {was: reviewed, export: valid(""), ready: true},
		"direct, and reviewed in another letter": {was: direct, export: valid("pullRequest"), ready: true, review: true},
	} {
		for _, kind := range []string{"", "PostgresqlInstance"} {
			w := newWorld(t)
			w.granted(nil)
			w.binding.Status.Kind, w.binding.Status.Changes = kind, tc.was
			w.put("status", map[string]string{contract.ExportPath(binding): tc.export})
			api, missing, err := w.bind(t.Context(), w.look())
			if err != nil || (missing == nil) != tc.ready || missing != nil && missing.reason != "ExportInvalid" {
				t.Errorf("%s, kept in step %t: %+v, %v", name, kind != "", missing, err)
			}
			if want := kind != "" || tc.ready; w.isRunning() != want || want && api.Review != tc.review {
				t.Errorf("%s, kept in step %t: running %t, reviewed %t", name, kind != "", w.isRunning(), api.Review)
			}
		}
	}
}

// A cluster's own admission control may refuse a definition, and the code is its to choose: the
// konnector has the right to install it then, and asking again at once does not help.
func TestWhatAdmissionSaysOfADefinitionIsSaid(t *testing.T) {
	t.Parallel()
	for _, code := range []int32{http.StatusForbidden, http.StatusConflict, http.StatusNotFound} {
		w := newWorld(t)
		w.Client = interceptor.NewClient(w.Client.(client.WithWatch), interceptor.Funcs{
			Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
				return webhookerrors.ToStatusErr("hook.example.org", &metav1.Status{Message: "not on a Friday", Code: code})
			},
		})
		want := postgresql()
		want.Name, want.Annotations = "backups.anynines.com", w.crd.Annotations
		_, not, err := w.install(t.Context(), &look{binding: w.binding}, want)
		if err != nil || not == nil || not.reason != "CRDRefused" || !strings.Contains(not.message, "not on a Friday") || not.retry != refusedWait {
			t.Errorf("%d: %+v, %v", code, not, err)
		}
	}
}

// A definition whose names another one of its group has is not served before that is gone.
func TestWhoHasTheNamesOfADefinitionIsSaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	want := w.crd.DeepCopy()
	w.crd.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{
		{Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionFalse, Reason: "KindConflict", Message: `"PostgresqlInstance" is already in use`},
		{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionFalse, Reason: "NotAccepted", Message: "not all names are accepted"},
	}
	if err := w.Client.Status().Update(t.Context(), w.crd); err != nil {
		t.Fatal(err)
	}
	_, not, err := w.install(t.Context(), &look{binding: w.binding}, want)
	if err != nil || not == nil || not.reason != "CRDNotEstablished" || !strings.Contains(not.message, `"PostgresqlInstance" is already in use`) {
		t.Errorf("%+v, %v", not, err)
	}
}

// Kubernetes lets nobody change the kind or the scope of a definition that is served, no matter
// who approves it and whether there are claims or not.
func TestADefinitionThatCannotBecomeAnotherIsNotApproved(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(live, want *apiextensionsv1.CustomResourceDefinitionSpec){
		"kind": func(_, want *apiextensionsv1.CustomResourceDefinitionSpec) { want.Names.Kind = "Postgres" },
		"scope": func(live, _ *apiextensionsv1.CustomResourceDefinitionSpec) {
			live.Scope = apiextensionsv1.ClusterScoped
		},
	} {
		for _, served := range []apiextensionsv1.ConditionStatus{apiextensionsv1.ConditionTrue, apiextensionsv1.ConditionFalse} {
			w := newWorld(t)
			want := w.crd.DeepCopy()
			change(&w.crd.Spec, &want.Spec)
			w.crd.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: served}}
			next, schema, err := w.next(t.Context(), w.look(), w.crd, want)
			if err != nil {
				t.Fatal(err)
			}
			if served == apiextensionsv1.ConditionFalse {
				if next == nil || schema.Status != metav1.ConditionTrue {
					t.Errorf("%s, not served: %v, %+v", name, next, schema)
				}
				continue
			}
			if next != nil || schema.Reason != "ImmutableChange" || !strings.Contains(schema.Message, "kubectl gitbind unbind "+binding+" --claims=orphan") || strings.Contains(schema.Message, v1alpha1.ApproveSchemaAnnotation) {
				t.Errorf("%s: %v, %+v", name, next, schema)
			}
		}
	}
}

// A definition that is held is the API's. The fields of our status come with the konnector, and
// what they keep (the sequence of the Secrets' list) must not wait for it.
func TestAHeldDefinitionHasTheFieldsOfOurStatus(t *testing.T) {
	t.Parallel()
	kept := func(crd *apiextensionsv1.CustomResourceDefinition) bool {
		_, ok := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"].Properties["gitbind"].Properties["secretsSequence"]
		return ok
	}
	spec := func(crd *apiextensionsv1.CustomResourceDefinition) map[string]apiextensionsv1.JSONSchemaProps {
		return crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties
	}
	add := func(crd *apiextensionsv1.CustomResourceDefinition) {
		spec(crd)["size"] = apiextensionsv1.JSONSchemaProps{Type: "string"}
	}
	remove := func(crd *apiextensionsv1.CustomResourceDefinition) { delete(spec(crd), "plan") }
	for name, tc := range map[string]struct {
		updates v1alpha1.SchemaUpdates
		change  func(*apiextensionsv1.CustomResourceDefinition)
		reason  string
	}{
		"the API is the same":    {v1alpha1.SchemaUpdatesNever, func(*apiextensionsv1.CustomResourceDefinition) {}, "UpToDate"},
		"a newer one is held":    {v1alpha1.SchemaUpdatesNever, add, "UpdateAvailable"},
		"one that breaks claims": {v1alpha1.SchemaUpdatesAlways, remove, "BreakingChange"},
	} {
		w := newWorld(t)
		w.forbidden = true // There may be claims.
		w.binding.Spec.SchemaUpdates = tc.updates
		want := w.crd.DeepCopy()
		tc.change(want)
		delete(w.crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"].Properties["gitbind"].Properties, "secretsSequence")
		next, schema, err := w.next(t.Context(), w.look(), w.crd, want)
		if err != nil || schema.Reason != tc.reason || next == nil || !kept(next) || len(spec(next)) != len(spec(w.crd)) {
			t.Errorf("%s: %v, %+v, %v", name, next, schema, err)
			continue
		}
		if again, schema, err := w.next(t.Context(), w.look(), next, want); again != nil || err != nil || schema.Reason != tc.reason {
			t.Errorf("%s, once it is installed: %v, %+v, %v", name, again, schema, err)
		}
	}
}

// The definition that there is gets them, too, where the export cannot be read.
func TestADefinitionWithoutItsExportHasTheFieldsOfOurStatus(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	delete(w.crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"].Properties, "gitbind")
	if err := w.Client.Update(t.Context(), w.crd); err != nil {
		t.Fatal(err)
	}
	want, _, err := w.installed(t.Context(), w.binding, "")
	if err != nil {
		t.Fatal(err)
	}
	next, _, err := w.next(t.Context(), w.look(), w.crd, want)
	if err != nil || next == nil {
		t.Fatal(next, err)
	}
	if again, _, err := w.next(t.Context(), w.look(), next, want); again != nil || err != nil {
		t.Errorf("once it is installed: %v, %v", again, err)
	}
}
