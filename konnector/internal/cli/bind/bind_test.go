package bind

import (
	"bytes"
	"os"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/test/golden"
)

var postgresql = v1alpha1.ExportedAPI{Group: "anynines.com", Version: "v1", Resource: "postgresqlinstances"}

// What is applied says all that binding does: the rights on the one API, and on
// what was made for it, by name.
func TestA4_BindingAppliesRightsOnTheOneAPIOnly(t *testing.T) {
	var all []string
	for _, o := range objects("default", restapi.Offer{Name: "postgresql", API: postgresql}, false) {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			t.Fatal(err)
		}
		delete(content, "status")
		data, err := yaml.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(data))
	}
	golden.Compare(t, "testdata/objects.yaml", []byte(strings.Join(all, "---\n")))
}

func TestNoAggregateLeavesPeopleOut(t *testing.T) {
	for _, o := range objects("default", restapi.Offer{Name: "postgresql", API: postgresql}, true) {
		if len(o.GetLabels()) > 0 {
			t.Errorf("%s is aggregated", o.GetName())
		}
	}
}

func TestAControlPlaneCannotMakeUsGrantWhatIsNotItsOwn(t *testing.T) {
	for _, api := range []v1alpha1.ExportedAPI{
		{Group: "", Resource: "secrets"},
		{Group: "apps", Resource: "deployments"},
		{Group: "rbac.authorization.k8s.io", Resource: "clusterroles"},
		{Group: "k8s.io", Resource: "x"},
		{Group: "gitbind.dev", Resource: "connections"},
		{Group: "x.gitbind.dev", Resource: "connections"},
		{Group: "node.kubernetes.io", Resource: "x"},
		{Group: "example.com", Resource: "*"},
		{Group: "*.com", Resource: "databases"},
		{Group: "example.com", Resource: "databases/status"},
		{Group: "com", Resource: "secrets.example"},
		{Group: "example.com", Resource: ""},
		{Group: "Example.com", Resource: "databases"},
	} {
		if err := grantable(api); err == nil {
			t.Errorf("%+v is granted", api)
		}
	}
	if err := grantable(postgresql); err != nil {
		t.Error(err)
	}
}

func TestFind(t *testing.T) {
	catalog := []restapi.Offer{
		{Name: "postgresql", API: postgresql},
		{Name: "backup", API: v1alpha1.ExportedAPI{Group: "anynines.com", Resource: "backups"}},
	}
	got, err := find(catalog, []string{"backup", "postgresqlinstances.anynines.com", "backup"})
	if err != nil || len(got) != 2 || got[0].Name != "backup" || got[1].Name != "postgresql" {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := find(catalog, []string{"postgresql", "mysql"}); err == nil || !strings.Contains(err.Error(), `there is no offer "mysql"`) {
		t.Errorf("error is %v", err)
	}
	gold, silver := restapi.Offer{Name: "gold", API: postgresql}, restapi.Offer{Name: "silver", API: postgresql}
	several := []restapi.Offer{gold, silver}
	if _, err := find(several, []string{postgresql.BindingName()}); err == nil || !strings.Contains(err.Error(), "name one of them: gold or silver") {
		t.Errorf("an API with several offers: %v", err)
	}
	if got, err := find(several, []string{"silver"}); err != nil || len(got) != 1 || got[0].Name != "silver" {
		t.Errorf("one of them: %v, %v", got, err)
	}
	if _, err := find(nil, []string{"mysql"}); err == nil {
		t.Error("found in an empty catalog")
	}
}

func TestExample(t *testing.T) {
	data, err := os.ReadFile("testdata/crd.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(data, &crd); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := writeExample(&out, &crd, "team-a"); err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "testdata/example.txt", out.Bytes())
}

func TestProbeAnswers(t *testing.T) {
	kind := schema.GroupKind{Group: "anynines.com", Kind: "PostgresqlInstance"}
	resource := schema.GroupResource{Group: "anynines.com", Resource: "postgresqlinstances"}
	invalid := func(paths ...string) error {
		var errs field.ErrorList
		for _, p := range paths {
			errs = append(errs, field.Invalid(field.NewPath(p), "x", "is wrong"))
		}
		return apierrors.NewInvalid(kind, "gitbind-probe", errs)
	}
	for what, c := range map[string]struct {
		err  error
		want bool
	}{
		"created":                           {nil, true},
		"schema is not known yet":           {apierrors.NewServiceUnavailable("not found"), false},
		"annotation was seen":               {invalid("metadata.annotations"), false},
		"annotation was seen, and the spec": {invalid("spec.plan", "metadata.annotations"), false},
		"annotation was dropped, spec bad":  {invalid("spec.plan"), true},
		"another policy refuses it":         {apierrors.NewForbidden(resource, "x", nil), true},
	} {
		if got := attributes(c.err); got != c.want {
			t.Errorf("%s: %t", what, got)
		}
	}
}
