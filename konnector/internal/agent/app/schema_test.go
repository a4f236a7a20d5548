package app_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/konnector/internal/agent/controller/apiservicebinding"
)

func (w *world) getDefinition() *apiextensionsv1.CustomResourceDefinition {
	w.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	w.must(w.client.Get(w.Context(), client.ObjectKey{Name: w.binding}, crd))
	return crd
}

// withRegion is a definition that breaks nothing.
func withRegion(crd *apiextensionsv1.CustomResourceDefinition) {
	specOf(crd).Properties["region"] = apiextensionsv1.JSONSchemaProps{Type: "string"}
}

func specOf(crd *apiextensionsv1.CustomResourceDefinition) apiextensionsv1.JSONSchemaProps {
	return crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
}

func (w *world) hasField(name string) bool {
	w.Helper()
	_, ok := specOf(w.getDefinition()).Properties[name]
	return ok
}

func (w *world) fieldComes(name string) {
	w.Helper()
	w.eventually("the definition has "+name, func() error {
		if !w.hasField(name) {
			return errorf("it has not")
		}
		return nil
	})
}

func TestB13_SchemaUpdatesAlwaysOrNever(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	w.bindingSays("Schema", "UpToDate")
	// A konnector that has yet to hear of it would install what comes.
	w.stop()
	w.patchBinding(`{"spec":{"schemaUpdates":"Never"}}`)
	w.start()
	w.publish(withRegion)
	if m := w.bindingSays("Schema", "UpdateAvailable"); !strings.Contains(m, "spec.schemaUpdates is Never") {
		t.Errorf("it says %q", m)
	}
	w.bindingIs("Bound")
	if w.hasField("region") {
		t.Error("it is installed")
	}
	w.apply("orders", spec("small"))
	w.inStep("orders")
	w.patchBinding(`{"spec":{"schemaUpdates":"Always"}}`)
	w.fieldComes("region")
	w.bindingSays("Schema", "UpToDate")
}

func TestD19_ASchemaThatBreaksObjectsIsHeld(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	w.apply("orders", spec("small"))
	w.inStep("orders")
	breaking := func(crd *apiextensionsv1.CustomResourceDefinition) {
		withRegion(crd)
		s := specOf(crd)
		delete(s.Properties, "expose")
		s.Required = []string{"service", "plan"}
		s.Properties["parameters"].Properties["maxConnections"] = apiextensionsv1.JSONSchemaProps{Type: "string"}
		crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"] = s
	}
	w.publish(breaking)
	message := w.bindingSays("Schema", "BreakingChange")
	for _, want := range []string{"spec.expose is removed", "spec.plan is required", "spec.parameters.maxConnections is string, and was integer"} {
		if !strings.Contains(message, want) {
			t.Errorf("%q is not in %q", want, message)
		}
	}
	t.Run("all goes on as it was", func(*testing.T) {
		w.bindingIs("Bound")
		if w.hasField("region") || !w.hasField("expose") {
			t.Error("it is installed")
		}
		w.setSpec("orders", "big", "plan")
		w.fileIs("orders", plan("big"))
	})
	t.Run("an approval of another one does nothing", func(*testing.T) {
		w.patchBinding(`{"metadata":{"annotations":{"gitbind.dev/approve-schema":"0123456789"}}}`)
		w.offers("PostgreSQL", breaking)
		if w.hasField("region") {
			t.Error("it is installed")
		}
	})
	t.Run("what a person approves is installed", func(*testing.T) {
		_, hash, ok := strings.Cut(message, v1alpha1.ApproveSchemaAnnotation+"=")
		if hash, _, _ = strings.Cut(hash, " "); !ok || len(hash) != 10 {
			t.Fatalf("it names none: %s", message)
		}
		w.patchBinding(`{"metadata":{"annotations":{"gitbind.dev/approve-schema":"` + hash + `"}}}`)
		w.fieldComes("region")
		w.bindingSays("Schema", "UpToDate")
		w.bindingIs("Bound")
	})
	t.Run("one that breaks nothing that there is needs none", func(*testing.T) {
		w.deleteObject("orders")
		w.goes("orders")
		w.publish(func(crd *apiextensionsv1.CustomResourceDefinition) {
			breaking(crd)
			delete(specOf(crd).Properties, "region")
			specOf(crd).Properties["zone"] = apiextensionsv1.JSONSchemaProps{Type: "string"}
		})
		w.fieldComes("zone")
	})
}

// What a file leaves out is what it was, whatever the default is by now.
func TestL12_AChangedDefaultDoesNotRideAlongWithAnEdit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.publish(tier(`"normal"`))
	w.loopPublished()
	w.commit("orders", "service: a9s-postgresql13", "plan: small")
	w.commit("billing", "service: a9s-postgresql13", "plan: small", "tier: normal")
	w.committed("orders")
	w.committed("billing")

	w.publish(tier(`"premium"`))
	if message, want := w.approveSchema(), `spec.tier has the default "premium", and had "normal"`; !strings.Contains(message, want) {
		t.Errorf("%q does not say %s", message, want)
	}

	t.Run("an edit in Git that says nothing of it leaves it", func(*testing.T) {
		w.commit("orders", "service: a9s-postgresql13", "plan: big")
		w.objectIs("orders", plan("big"))
		w.objectIs("orders", field("normal", "tier"))
		w.committed("orders")
	})
	t.Run("a second one, too", func(*testing.T) {
		w.commit("orders", "service: a9s-postgresql13", "plan: small")
		w.objectIs("orders", plan("small"))
		w.objectIs("orders", field("normal", "tier"))
	})
	t.Run("an edit that takes it out of the file asks for the default", func(*testing.T) {
		w.commit("billing", "service: a9s-postgresql13", "plan: small")
		w.objectIs("billing", field("premium", "tier"))
	})
	t.Run("both change something", func(*testing.T) {
		w.stop()
		w.setSpec("orders", int64(7), "parameters", "maxConnections")
		w.commit("orders", "service: a9s-postgresql13", "plan: big")
		w.start()
		w.objectIs("orders", plan("big"))
		w.objectIs("orders", field("normal", "tier"))
		w.fileIs("orders", field("normal", "tier"))
	})
}

// A default that came after the agreement is in no base. The API server stores it with
// the next write, no matter who makes it, and that is no edit.
func TestL12_ADefaultThatCameLaterIsNoEditWhenItChanges(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	names := []string{"orders", "billing"}
	w.apply("orders", spec("small"))
	w.commit("billing", "service: a9s-postgresql13", "plan: small")
	w.inStep("orders")
	w.committed("billing")
	w.publish(tier(`"normal"`))
	for _, name := range names {
		w.objectIs(name, field("normal", "tier"))
		w.edit(name, func(u *unstructured.Unstructured) { w.annotate(u, "example.com/x", "y") })
	}
	head := w.head("main")
	w.publish(tier(`"premium"`))
	w.approveSchema()
	// All claims are looked at.
	w.stop()
	w.start()
	w.apply("later", spec("small"))
	w.objectIs("later", field("premium", "tier"))
	w.inStep("later")
	if got := w.git("diff", "--name-only", head, "main"); got != w.key("later").Path() {
		t.Errorf("committed: %s", got)
	}
	// Nor does the new one come with somebody's edit.
	w.commit("billing", "service: a9s-postgresql13", "plan: big")
	w.objectIs("billing", plan("big"))
	for _, name := range names {
		w.objectIs(name, field("normal", "tier"))
		w.committed(name)
		w.conditionIs(name, "Conflict", "None")
	}
	if strings.Contains(w.text("billing"), "tier") {
		t.Errorf("it was merged:\n%s", w.text("billing"))
	}
	w.setSpec("orders", "big", "plan")
	w.fileIs("orders", plan("big"))
	w.fileIs("orders", field("normal", "tier"))
}

// tier is a definition with a field of that name, and its default.
func tier(value string) func(*apiextensionsv1.CustomResourceDefinition) {
	return func(crd *apiextensionsv1.CustomResourceDefinition) {
		specOf(crd).Properties["tier"] = apiextensionsv1.JSONSchemaProps{Type: "string", Default: &apiextensionsv1.JSON{Raw: []byte(value)}}
	}
}

// approveSchema lets a breaking change be installed, and returns what was said of it.
func (w *world) approveSchema() (message string) {
	w.Helper()
	message = w.bindingSays("Schema", "BreakingChange")
	_, hash, _ := strings.Cut(message, v1alpha1.ApproveSchemaAnnotation+"=")
	hash, _, _ = strings.Cut(hash, " ")
	w.patchBinding(`{"metadata":{"annotations":{"gitbind.dev/approve-schema":"` + hash + `"}}}`)
	w.bindingSays("Schema", "UpToDate")
	return message
}

// The control plane publishes one version; another one takes its place.
func TestC8_AnotherVersionTakesThePlaceOfTheFirst(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	w.apply("orders", spec("small"))
	w.inStep("orders")
	next := func(crd *apiextensionsv1.CustomResourceDefinition) {
		withRegion(crd)
		crd.Spec.Versions[0].Name = "v2"
	}
	w.publish(next)
	if message := w.approveSchema(); !strings.Contains(message, "version v1 is no longer served") {
		t.Errorf("it says %q", message)
	}
	w.bindingIs("Bound")
	// Objects may be stored in the old version, which nobody can use any more.
	served := map[string]bool{}
	for _, v := range w.getDefinition().Spec.Versions {
		served[v.Name] = v.Served
	}
	if len(served) != 2 || served["v1"] || !served["v2"] {
		t.Errorf("versions are served: %v", served)
	}
	commits := len(w.log("%h"))
	w.kind = schema.GroupVersionKind{Group: w.group, Version: "v2", Kind: w.kind.Kind}
	w.inStep("orders")
	if now := len(w.log("%h")); now != commits {
		t.Errorf("the new version makes %d commits", now-commits)
	}
	w.setSpec("orders", "eu", "region")
	w.fileIs("orders", field("eu", "region"))
	w.commit("orders", "service: a9s-postgresql13", "plan: big")
	w.objectIs("orders", plan("big"))

	t.Run("the first one may come back", func(*testing.T) {
		w.publish(nil)
		w.bindingSays("Schema", "BreakingChange")
		w.bindingIs("Bound")
	})
}

// A tool that puts another definition in the place of the konnector's is not answered for ever.
func TestB13_AToolThatPutsTheDefinitionBackIsNamed(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	w.bindingSays("Schema", "UpToDate")
	w.writes.take("apiextensions.k8s.io")
	ctx, end := context.WithCancel(t.Context())
	var tool sync.WaitGroup
	tool.Go(func() {
		for ; ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
			crd := &apiextensionsv1.CustomResourceDefinition{}
			if w.client.Get(ctx, client.ObjectKey{Name: w.binding}, crd) == nil {
				crd.Spec.Names.ShortNames = []string{"theirs"}
				_ = w.client.Update(ctx, crd, client.FieldOwner("argocd-controller")) // It tries again.
			}
		}
	})
	defer tool.Wait()
	defer end()
	for _, kind := range []string{"Ready", "Schema"} {
		if m := w.bindingSays(kind, "ManyWrites"); !strings.Contains(m, "argocd-controller") {
			t.Errorf("%s says %q", kind, m)
		}
	}
	w.offers("PostgreSQL", nil)
	// What comes after a write of the tool, or of the API server, is refused, and counts here, too.
	if got := w.writes.take("apiextensions.k8s.io"); len(got) > 10*apiservicebinding.MaxRewrites {
		t.Errorf("it is answered %d times", len(got))
	}
	// Claims go by the definition that there is.
	w.apply("orders", spec("small"))
	w.inStep("orders")
}
