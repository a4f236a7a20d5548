package env

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var note = schema.GroupVersionKind{Group: "test.gitbind.dev", Version: "v1", Kind: "Note"}

func TestCrossplane(t *testing.T) {
	t.Parallel()
	// An hour: whatever comes sooner came by an event.
	e := StartForTest(t, Options{Clusters: []string{Control}, Crossplane: true, PollInterval: time.Hour})
	c, err := client.New(e.Cluster(Control).Config(), client.Options{Scheme: installScheme()})
	fatal(t, err)
	applyFile(t, c, "testdata/composition.yaml")
	waitForXRD(t, c, "xnotes.test.gitbind.dev")
	fatal(t, e.Cluster(Control).Rediscover(testContext(t)))

	t.Run("a claim becomes ready by events alone", func(t *testing.T) {
		began := time.Now()
		claim := newNote("first", "hello")
		fatal(t, c.Create(testContext(t), claim))
		waitForNote(t, c, claim, "hello")
		t.Logf("the claim was ready after %s", time.Since(began).Round(time.Millisecond))
	})
	t.Run("the provider converts between the versions of Object", func(t *testing.T) {
		old := &unstructured.UnstructuredList{}
		old.SetGroupVersionKind(schema.GroupVersionKind{Group: "kubernetes.crossplane.io", Version: "v1alpha1", Kind: "ObjectList"})
		if err := c.List(testContext(t), old); err != nil || len(old.Items) != 1 {
			t.Errorf("got %d objects, %v; want one", len(old.Items), err)
		}
	})
	t.Run("a namespaced Object works too", func(t *testing.T) { testNamespacedObject(t, c) })
	t.Run("changes reach what was composed, and its status comes back", func(t *testing.T) {
		// Several, because Crossplane stops listening to an object that it takes
		// for restless.
		for _, text := range []string{"one", "two", "changed"} {
			claim := newNote("first", "")
			began := time.Now()
			fatal(t, c.Patch(testContext(t), claim, mergePatch(fmt.Appendf(nil, `{"spec": {"text": %q}}`, text))))
			waitForNote(t, c, claim, text)
			t.Logf("the change was in the status after %s", time.Since(began).Round(time.Millisecond))
		}
	})
	t.Run("what somebody else changes is put right at once", func(t *testing.T) { testDrift(t, c) })
	t.Run("a deleted claim takes everything along", func(t *testing.T) { testClaimDeletion(t, c) })
}

func testNamespacedObject(t *testing.T, c client.Client) {
	ctx := testContext(t)
	o := object(schema.GroupVersionKind{Group: "kubernetes.m.crossplane.io", Version: "v1alpha1", Kind: "Object"}, "namespaced")
	o.SetNamespace("default")
	o.Object["spec"] = map[string]any{
		"providerConfigRef": map[string]any{"kind": "ClusterProviderConfig", "name": ProviderConfigName},
		"forProvider": map[string]any{"manifest": map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "namespaced", "namespace": "default"},
		}},
	}
	fatal(t, c.Create(ctx, o))
	fatal(t, until(ctx, "the Object to be ready", func(ctx context.Context) (bool, error) {
		err := c.Get(ctx, client.ObjectKeyFromObject(o), o)
		return err == nil && conditionTrue(o, "Ready") && conditionTrue(o, "Synced"), err
	}))
	fatal(t, c.Get(ctx, client.ObjectKey{Namespace: "default", Name: "namespaced"}, &corev1.ConfigMap{}))
}

func testDrift(t *testing.T, c client.Client) {
	ctx := testContext(t)
	composed := noteConfigMap(t, c)
	began := time.Now()
	fatal(t, c.Patch(ctx, composed, mergePatch([]byte(`{"data": {"text": "tampered"}}`))))
	fatal(t, until(ctx, "the text to be put right", func(ctx context.Context) (bool, error) {
		err := c.Get(ctx, client.ObjectKeyFromObject(composed), composed)
		return err == nil && composed.Data["text"] == "changed", err
	}))
	t.Logf("it was put right after %s", time.Since(began).Round(time.Millisecond))
}

func testClaimDeletion(t *testing.T, c client.Client) {
	ctx := testContext(t)
	composed := noteConfigMap(t, c)
	began := time.Now()
	fatal(t, c.Delete(ctx, newNote("first", "")))
	fatal(t, until(ctx, "the composed ConfigMap to be gone", func(ctx context.Context) (bool, error) {
		err := c.Get(ctx, client.ObjectKeyFromObject(composed), composed)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}))
	t.Logf("everything was gone after %s", time.Since(began).Round(time.Millisecond))
}

// noteConfigMap is the one ConfigMap that the Composition has made.
func noteConfigMap(t *testing.T, c client.Client) *corev1.ConfigMap {
	t.Helper()
	list := &corev1.ConfigMapList{}
	fatal(t, c.List(testContext(t), list, client.InNamespace("default")))
	i := slices.IndexFunc(list.Items, func(m corev1.ConfigMap) bool { return m.Data["text"] != "" })
	if i < 0 {
		t.Fatal("there is no composed ConfigMap")
	}
	return &list.Items[i]
}

func newNote(name, text string) *unstructured.Unstructured {
	o := object(note, name)
	o.SetNamespace("default")
	o.Object["spec"] = map[string]any{"text": text, "compositeDeletePolicy": "Foreground"}
	return o
}

func waitForNote(t *testing.T, c client.Client, claim *unstructured.Unstructured, text string) {
	t.Helper()
	fatal(t, until(testContext(t), "the claim to be ready", func(ctx context.Context) (bool, error) {
		if err := c.Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
			return false, err
		}
		stored, _, _ := unstructured.NestedString(claim.Object, "status", "stored")
		return stored == text && conditionTrue(claim, "Ready"), nil
	}))
}

func waitForXRD(t *testing.T, c client.Client, name string) {
	t.Helper()
	xrd := object(schema.GroupVersionKind{Group: "apiextensions.crossplane.io", Version: "v1", Kind: "CompositeResourceDefinition"}, name)
	fatal(t, until(testContext(t), "the XRD to be offered", func(ctx context.Context) (bool, error) {
		err := c.Get(ctx, client.ObjectKeyFromObject(xrd), xrd)
		return err == nil && conditionTrue(xrd, "Established") && conditionTrue(xrd, "Offered"), err
	}))
}

func conditionTrue(o *unstructured.Unstructured, kind string) bool {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(c any) bool {
		m, ok := c.(map[string]any)
		return ok && m["type"] == kind && m["status"] == string(metav1.ConditionTrue)
	})
}

func applyFile(t *testing.T, c client.Client, path string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	fatal(t, err)
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), 4096)
	for {
		o := &unstructured.Unstructured{}
		err := decoder.Decode(o)
		if errors.Is(err, io.EOF) {
			return
		}
		fatal(t, err)
		fatal(t, c.Create(testContext(t), o))
	}
}
