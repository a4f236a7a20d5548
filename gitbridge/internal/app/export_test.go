package app_test

import (
	"errors"
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store"
)

func (t *tenant) exported(api v1alpha1.ExportedAPI) (*v1alpha1.APIServiceExport, error) {
	snap, err := t.status.Fetch(t.Context())
	t.must(err)
	data, err := snap.Read(contract.ExportPath(api.BindingName()))
	if err != nil {
		return nil, err
	}
	var e v1alpha1.APIServiceExport
	return &e, yaml.UnmarshalStrict(data, &e)
}

func testExport(w *world, apis apis) {
	t := w.tenant(apis.caches)
	var e *v1alpha1.APIServiceExport
	t.eventually("the export is published", func() (err error) {
		e, err = t.exported(apis.caches)
		return err
	})
	var crd apiextensionsv1.CustomResourceDefinition
	w.must(yaml.Unmarshal(e.Status.CRD.Raw, &crd))
	if e.Name != "caches.example.org" || e.Spec.API != apis.caches || crd.Name != "caches.example.org" || len(crd.Spec.Versions) != 1 {
		w.Errorf("export %+v", e)
	}

	// An app cluster's API server takes it. This one stands in, as far as it
	// judges a definition.
	var live apiextensionsv1.CustomResourceDefinition
	w.must(w.admin.Get(w.Context(), client.ObjectKey{Name: crd.Name}, &live))
	trial := live.DeepCopy()
	trial.Spec = crd.Spec
	trial.Spec.Versions = append(trial.Spec.Versions, live.Spec.Versions[0]) // stored once
	if err := w.admin.Update(w.Context(), trial, client.DryRunAll); err != nil {
		w.Errorf("an API server refuses the exported definition: %v", err)
	}

	onServer := func() *v1alpha1.APIServiceExport {
		var e v1alpha1.APIServiceExport
		w.must(w.admin.Get(w.Context(), client.ObjectKey{Namespace: v1alpha1.TenantNamespace(t.id), Name: crd.Name}, &e))
		return &e
	}
	t.eventually("it is said", func() error {
		if e := onServer(); !meta.IsStatusConditionTrue(e.Status.Conditions, v1alpha1.ConditionPublished) || e.Status.CRD == nil {
			return fmt.Errorf("%+v", e.Status.Conditions)
		}
		return nil
	})

	described := "changed for " + t.id
	w.eventually("the definition is changed", func() error {
		w.must(w.admin.Get(w.Context(), client.ObjectKey{Name: crd.Name}, &live))
		live.Spec.Versions[1].Schema.OpenAPIV3Schema.Description = described
		return w.admin.Update(w.Context(), &live)
	})
	t.eventually("a change of the definition follows", func() error {
		e, err := t.exported(apis.caches)
		if err != nil || !strings.Contains(string(e.Status.CRD.Raw), described) {
			return errors.Join(err, errors.New("not yet"))
		}
		return nil
	})

	cache := path(apis.caches, "team-a", "c")
	t.push("Order", map[string]string{cache: manifest(cache, "  size: small")})
	t.wantAnswer(cache, contract.Applied)
	w.must(w.admin.Delete(w.Context(), &v1alpha1.APIServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.TenantNamespace(t.id), Name: crd.Name}}))
	t.eventually("the export is withdrawn", func() error {
		if _, err := t.exported(apis.caches); !errors.Is(err, store.ErrNotExist) {
			return errors.Join(err, errors.New("still there"))
		}
		return nil
	})
	t.wantAnswer(cache, contract.Invalid, "is not bound")
	if t.object(cache) == nil {
		w.Error("unbinding deleted a service")
	}
	t.push("Cancel", map[string]string{cache: ""})
	t.wantAnswer(cache, contract.Held, "no right")
	t.bind(apis.caches)
	t.wantAnswer(cache, contract.Held, "nothing was deleted")
}
