package apiservicebinding

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"gitbind.dev/gitbridge/api/v1alpha1"
)

const binding = "postgresqlinstances.anynines.com"

func postgresql() *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: binding},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "anynines.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "postgresqlinstances", Kind: "PostgresqlInstance"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object",
					Properties: map[string]apiextensionsv1.JSONSchemaProps{
						"spec": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"plan": {Type: "string"}}},
					},
				}},
			}},
		},
	}
}

func export(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition, change func(*v1alpha1.APIServiceExport)) []byte {
	t.Helper()
	raw, err := json.Marshal(crd)
	if err != nil {
		t.Fatal(err)
	}
	e := &v1alpha1.APIServiceExport{
		TypeMeta:   metav1.TypeMeta{APIVersion: "gitbind.dev/v1alpha1", Kind: "APIServiceExport"},
		ObjectMeta: metav1.ObjectMeta{Name: binding},
		Spec:       v1alpha1.APIServiceExportSpec{Template: "postgresql", API: v1alpha1.ExportedAPI{Group: "anynines.com", Version: "v1", Resource: "postgresqlinstances"}},
		Status:     v1alpha1.APIServiceExportStatus{CRD: &runtime.RawExtension{Raw: raw}},
	}
	if change != nil {
		change(e)
	}
	data, err := yaml.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestDefinition(t *testing.T) {
	crd := postgresql()
	crd.Labels = map[string]string{"from": "elsewhere"}
	crd.Annotations = map[string]string{"api-approved.kubernetes.io": "x"}
	got, err := definition(binding, "default", export(t, crd, nil))
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Annotations) != 1 || got.Annotations[v1alpha1.ConnectionAnnotation] != "default" || len(got.Labels) != 1 {
		t.Errorf("metadata %v %v", got.Labels, got.Annotations)
	}
	v := got.Spec.Versions[0]
	status := v.Schema.OpenAPIV3Schema.Properties["status"]
	ours := status.Properties["gitbind"].Properties
	if v.Subresources.Status == nil || ours["uid"].Type != "string" || ours["hold"].Properties["token"].Type != "string" {
		t.Errorf("there is no room for our status: %+v", status)
	}
}

func TestDefinitionKeepsTheFieldsOfOurStatus(t *testing.T) {
	crd := postgresql()
	crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"] = apiextensionsv1.JSONSchemaProps{
		Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"managed": {Type: "object"},
			"gitbind": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"commit": {Type: "string"}}},
		},
	}
	got, err := definition(binding, "default", export(t, crd, nil))
	if err != nil {
		t.Fatal(err)
	}
	status := got.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"]
	ours := status.Properties["gitbind"]
	names := slices.Sorted(maps.Keys(ours.Properties))
	if want := []string{"commit", "hold", "secrets", "secretsSequence", "taken", "uid"}; len(status.Properties) != 2 || !slices.Equal(names, want) || ours.XPreserveUnknownFields != nil {
		t.Errorf("got %v in %+v", names, status)
	}
}

func TestDefinitionRefuses(t *testing.T) {
	webhook := &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter}
	for name, tc := range map[string]struct {
		crd    func(*apiextensionsv1.CustomResourceDefinition)
		export func(*v1alpha1.APIServiceExport)
		want   string
	}{
		"another name":           {crd: func(c *apiextensionsv1.CustomResourceDefinition) { c.Name = "secrets.anynines.com" }, want: "it defines"},
		"another group":          {crd: func(c *apiextensionsv1.CustomResourceDefinition) { c.Spec.Group = "apps.k8s.io" }, want: "it defines"},
		"another plural":         {crd: func(c *apiextensionsv1.CustomResourceDefinition) { c.Spec.Names.Plural = "backups" }, want: "it defines"},
		"the whole cluster":      {crd: func(c *apiextensionsv1.CustomResourceDefinition) { c.Spec.Scope = "Cluster" }, want: "not namespaced"},
		"a conversion webhook":   {crd: func(c *apiextensionsv1.CustomResourceDefinition) { c.Spec.Conversion = webhook }, want: "webhook"},
		"no schema":              {crd: func(c *apiextensionsv1.CustomResourceDefinition) { c.Spec.Versions[0].Schema = nil }, want: "no schema"},
		"no storage version":     {crd: func(c *apiextensionsv1.CustomResourceDefinition) { c.Spec.Versions[0].Storage = false }, want: "storage"},
		"no pruning":             {crd: func(c *apiextensionsv1.CustomResourceDefinition) { c.Spec.PreserveUnknownFields = true }, want: "keeps fields"},
		"an export of another":   {export: func(e *v1alpha1.APIServiceExport) { e.Spec.API.Resource = "backups" }, want: "another API"},
		"an export renamed":      {export: func(e *v1alpha1.APIServiceExport) { e.Name = "backups.anynines.com" }, want: "another API"},
		"no definition yet":      {export: func(e *v1alpha1.APIServiceExport) { e.Status.CRD = nil }, want: "no CustomResourceDefinition"},
		"another kind of object": {export: func(e *v1alpha1.APIServiceExport) { e.Kind = "ConfigMap" }, want: "ConfigMap"},
	} {
		t.Run(name, func(t *testing.T) {
			crd := postgresql()
			if tc.crd != nil {
				tc.crd(crd)
			}
			_, err := definition(binding, "default", export(t, crd, tc.export))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v", err)
			}
		})
	}
	if _, err := definition(binding, "default", []byte("a: [")); err == nil {
		t.Error("no YAML was taken")
	}
}

func TestCheckName(t *testing.T) {
	for name, ok := range map[string]bool{
		binding:                         true,
		"deployments.apps":              false,
		"leases.coordination.k8s.io":    false,
		"ks.k8s.io":                     false,
		"connections.gitbind.dev":       false,
		"x.sub.gitbind.dev":             false,
		"notk8s.example-k8s.io":         true,
		"postgresqlinstances":           false,
		"Postgres.anynines.com":         false,
		"x.node.kubernetes.io":          false,
		"postgresqlinstances.gitbind.x": true,
	} {
		if err := checkName(name); (err == nil) != ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAnOfferThatHasNoPlaceIsLeftOut: the API server would refuse the status with it,
// and the API is the same without.
func TestAnOfferThatHasNoPlaceIsLeftOut(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{"PostgreSQL": true, strings.Repeat("ö", 63): true, strings.Repeat("x", 64): false} {
		got, err := readTerms([]byte("status: {offer: {displayName: " + name + "}}"))
		if err != nil || (got.Offer != nil) != want {
			t.Errorf("%s: %+v, %v", name, got.Offer, err)
		}
	}
}

// The definition waits for its objects, and they for this agent.
func TestADefinitionThatIsBeingDeletedIsGoneOnWith(t *testing.T) {
	unbound := func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Annotations[unboundAnnotation] = "b0" }
	for name, c := range map[string]struct {
		change func(*apiextensionsv1.CustomResourceDefinition)
		want   bool
	}{
		"somebody deletes it": {func(*apiextensionsv1.CustomResourceDefinition) {}, true},
		"it is another's": {func(crd *apiextensionsv1.CustomResourceDefinition) {
			crd.Annotations[v1alpha1.ConnectionAnnotation] = "x"
		}, false},
		"it has no owner":          {func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Annotations = nil }, false},
		"it goes for an unbinding": {unbound, false},
		"it goes for an unbinding, and a claim came meanwhile": {unbound, true},
		"it was never served": {func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Status.Conditions = nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			want := w.crd.DeepCopy()
			if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(want), w.crd); err != nil {
				t.Fatal(err)
			}
			w.crd.Finalizers = []string{apiextensionsv1.CustomResourceCleanupFinalizer}
			w.crd.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
			c.change(w.crd)
			status := w.crd.Status
			if err := w.Client.Update(t.Context(), w.crd); err != nil {
				t.Fatal(err)
			}
			w.crd.Status = status
			if err := w.Client.Status().Update(t.Context(), w.crd); err != nil {
				t.Fatal(err)
			}
			if err := w.Client.Delete(t.Context(), w.crd); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(name, "a claim") {
				w.objects = []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "c0", Finalizers: []string{v1alpha1.Finalizer}}}}
			}
			got, missing, err := w.install(t.Context(), &look{binding: w.binding}, want)
			if err != nil || missing == nil || missing.reason != "CRDTerminating" || (got != nil) != c.want {
				t.Errorf("%v, %+v, %v", got, missing, err)
			}
		})
	}
}
