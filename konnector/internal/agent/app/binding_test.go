package app_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
)

func TestB9_TheSecretMayComeAfterTheConnection(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	w.bind()
	w.bindingIs("ConnectionNotFound")
	w.must(w.client.Create(t.Context(), w.connection))
	w.connectionIs("SecretMissing")
	w.bindingIs("ConnectionNotReady")
	w.must(w.client.Create(t.Context(), w.secret()))
	w.connectionIs("Connected")
	if m := w.bindingIs("WaitingForExport"); !strings.Contains(m, "export.yaml") {
		t.Errorf("message %q", m)
	}
	w.publish(nil)
	w.ready()
	w.apply("orders", spec("small"))
	w.committed("orders")
	w.eventually("events are heard", func() error {
		if !isTrue(w.getConnection().Status.Conditions, v1alpha1.ConditionEvents) {
			return errorf("%+v", w.getConnection().Status.Conditions)
		}
		return nil
	})
}

func TestForeignCRDIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	foreign := w.definition()
	foreign.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["mine"] = apiextensionsv1.JSONSchemaProps{Type: "string"}
	w.must(w.client.Create(t.Context(), foreign))
	w.publish(nil)
	w.must(w.client.Create(t.Context(), w.secret()))
	w.must(w.client.Create(t.Context(), w.connection))
	w.bind()
	w.start()
	if m := w.bindingIs("CRDConflict"); !strings.Contains(m, "kubectl annotate") {
		t.Errorf("it does not say what to do: %s", m)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	w.must(w.client.Get(t.Context(), client.ObjectKeyFromObject(foreign), crd))
	if _, ok := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["mine"]; !ok || len(crd.Annotations) > 0 {
		t.Errorf("it was changed: %+v", crd.ObjectMeta)
	}
	// A person gives it to the binding.
	w.eventually("it is given", func() error {
		w.must(w.client.Get(t.Context(), client.ObjectKeyFromObject(foreign), crd))
		metav1.SetMetaDataAnnotation(&crd.ObjectMeta, v1alpha1.ConnectionAnnotation, w.name)
		return w.client.Update(t.Context(), crd)
	})
	w.must(w.client.Patch(t.Context(), &v1alpha1.APIServiceBinding{ObjectMeta: metav1.ObjectMeta{Name: w.binding}}, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"again":"please"}}}`))))
	w.ready()
}

func TestExportThatReachesFurtherIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.publish(func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec.Scope = apiextensionsv1.ClusterScoped })
	w.must(w.client.Create(t.Context(), w.secret()))
	w.must(w.client.Create(t.Context(), w.connection))
	w.bind()
	w.start()
	if m := w.bindingIs("ExportInvalid"); !strings.Contains(m, "not namespaced") {
		t.Errorf("message %q", m)
	}
	w.publish(nil)
	w.ready()
}

func TestNewSchemaFlowsIn(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	w.apply("orders", spec("small"))
	w.committed("orders")
	// A field that is not there yet says nothing.
	w.commit("orders", "service: a9s-postgresql13", "plan: small", "region: eu")
	w.publish(func(crd *apiextensionsv1.CustomResourceDefinition) {
		s := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
		s.Properties["region"] = apiextensionsv1.JSONSchemaProps{Type: "string"}
	})
	w.objectIs("orders", field("eu", "region"))
	w.eventually("an edit with it", func() error {
		u := w.get("orders")
		u.Object["spec"].(map[string]any)["region"] = "us"
		return w.alice.Update(t.Context(), u)
	})
	w.fileIs("orders", field("us", "region"))
	// A new default, and nobody edits anything.
	commits := len(w.log("%h"))
	w.committed("orders")
	w.publish(func(crd *apiextensionsv1.CustomResourceDefinition) {
		s := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
		s.Properties["region"] = apiextensionsv1.JSONSchemaProps{Type: "string"}
		s.Properties["tier"] = apiextensionsv1.JSONSchemaProps{Type: "string", Default: &apiextensionsv1.JSON{Raw: []byte(`"gold"`)}}
	})
	w.objectIs("orders", field("gold", "tier"))
	w.never("a commit", func() bool { return len(w.log("%h")) > commits })
}

func TestMissingRightsAreSaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "gitbind:api:" + w.binding}}
	w.must(w.client.Get(t.Context(), client.ObjectKeyFromObject(binding), binding))
	w.must(w.client.Delete(t.Context(), binding))
	w.noRights()
	w.publish(nil)
	w.must(w.client.Create(t.Context(), w.secret()))
	w.must(w.client.Create(t.Context(), w.connection))
	w.bind()
	w.start()
	if m := w.bindingIs("Forbidden"); !strings.Contains(m, "kubectl gitbind bind") {
		t.Errorf("message %q", m)
	}
	binding.ResourceVersion = ""
	w.must(w.client.Create(t.Context(), binding))
	w.ready()
}

func TestManyAtOnceTravelTogether(t *testing.T) {
	t.Parallel()
	w := newAttributedLoop(t)
	const n = 300
	// While a push is under way, others gather: this one lasts until all are made.
	made := make(chan struct{})
	w.host.SetBefore(func(r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/git-receive-pack") {
			<-made
		}
	})
	release := sync.OnceFunc(func() { close(made) })
	defer release()
	start := time.Now()
	errs := make(chan error, n)
	for i := range n {
		go func() {
			errs <- w.alice.Create(context.Background(), w.object("c"+strings.Repeat("x", i%5)+time.Duration(i).String(), spec("small")))
		}()
	}
	for range n {
		w.must(<-errs)
	}
	created := time.Since(start)
	release()
	w.eventually("all files", func() error { return cmpError(n, w.files()) })
	took, commits := time.Since(start), len(w.log("%h"))
	t.Logf("%d claims: created after %v, all on main after %v, in %d commits", n, created, took, commits)
	if commits > n/4 {
		t.Errorf("%d commits for %d claims", commits, n)
	}
	for _, line := range w.log("%an") {
		if line != "alice" {
			t.Errorf("author %s", line)
		}
	}
}

// TestL15_AReadyBindingIsToldThatItsRightsAreGone takes the rights on an API away while
// its claims are kept in step, and gives them back.
func TestL15_AReadyBindingIsToldThatItsRightsAreGone(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	w.apply("orders", spec("small"))
	w.committed("orders")
	w.ungrant()
	w.setSpec("orders", "big", "plan")
	if m := w.bindingIs("Forbidden"); !strings.Contains(m, "kubectl gitbind bind") {
		t.Errorf("message %q", m)
	}
	w.must(w.grant(t.Context(), w.plural, w.group))
	w.bindingIs("Bound")
	w.fileIs("orders", plan("big"))
	w.committed("orders")
}
