package app_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
)

func TestL1_NamespaceRemovedByForceKeepsItsServices(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	names := w.claims(3)
	w.deleteNamespace()
	w.held("NamespaceDeleted", names...)
	head := w.head("main")
	w.finalizeNamespace()
	w.heldFiles("NamespaceDeleted", 3)
	w.stop()
	w.start()
	// The claims are looked at in any order: when what was held is listed by this
	// process, all were.
	w.bindingIs("Bound")
	w.heldFiles("NamespaceDeleted", 3)
	other := *w
	other.namespace = w.namespace + "-other"
	w.must(w.client.Create(t.Context(), namespace(other.namespace)))
	other.never("main changes", func() bool { return w.changedSince(head) })

	// The way out, also for one that nobody had decided on before.
	w.otherSecond(w.get("c0").GetDeletionTimestamp())
	w.must(w.client.Create(t.Context(), namespace(w.namespace)))
	w.held("NamespaceDeleted", names...)
	w.heldFiles("", 0)
	w.stop()
	w.start()
	w.held("NamespaceDeleted", names...)
	w.never("main changes", func() bool { return w.changedSince(head) })
	w.resolve("c0", "delete")
	w.goes("c0")
	w.resolve("c1", "release")
	w.resolve("c2", "release")
	w.areClaimsAgain("c1", "c2")
}

// Nothing tells then but that the namespace is younger than the delete.
func TestL1_NamespaceRemovedAndMadeAgainWhileNobodyLooked(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	names := w.claims(2)
	w.stop()
	w.deleteNamespace()
	w.terminates(names...)
	w.finalizeNamespace()
	head := w.head("main")
	w.start()
	w.heldFiles("NamespaceDeleted", 2)
	w.stop()
	made := w.get("c1").GetCreationTimestamp()
	w.otherSecond(&made)
	w.must(w.client.Create(t.Context(), namespace(w.namespace)))
	w.start()
	w.held("NamespaceDeleted", names...)
	w.heldFiles("", 0)
	w.never("main changes", func() bool { return w.changedSince(head) })
	w.resolve("c0", "release")
	w.resolve("c1", "release")
	w.inStep(names...)
}

func TestL1_DefinitionRemovedByForceKeepsItsServices(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	names := w.claims(2)
	w.deleteDefinition()
	head := w.head("main")
	w.terminates(names...)
	w.held("APIDeleted", names...)
	first := w.getDefinition().UID
	w.must(w.client.Patch(t.Context(), w.getDefinition(), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":[]}}`))))
	w.definitionIsAnother(first)
	w.bindingIs("Bound")
	for range 2 {
		w.held("APIDeleted", names...)
		w.never("main changes", func() bool { return w.changedSince(head) })
		w.stop()
		w.start()
	}
	w.resolve("c0", "release")
	w.inStep("c0")
	w.resolve("c1", "delete")
	w.goes("c1")
}

// The definition goes when the objects have, and these when the konnector lets them.
func TestL1_ClaimsOfADefinitionThatEndsAreDecidedOnAfterARestart(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	names := w.claims(3)
	w.deleteDefinition()
	first := w.getDefinition().UID
	w.terminates(names...)
	w.held("APIDeleted", names...)
	w.stop()
	w.start()
	w.resolve("c0", "delete")
	w.goes("c0")
	w.stop()
	w.resolve("c1", "release")
	w.resolve("c2", "release")
	w.start()
	w.definitionIsAnother(first)
	w.bindingIs("Bound")
	w.areClaimsAgain("c1", "c2")
}

// Nobody has looked since it was deleted.
func TestL1_DefinitionDeletedWhileNobodyLooked(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	names := w.claims(2)
	w.stop()
	w.deleteDefinition()
	w.terminates(names...)
	head := w.head("main")
	w.start()
	w.held("APIDeleted", names...)
	w.bindingIs("CRDTerminating")
	w.resolve("c0", "release")
	w.resolve("c1", "release")
	w.inStep(names...)
	if got := w.head("main"); got != head {
		t.Error("main changed")
	}
}

// areClaimsAgain waits until two claims that were released are in step, and deletes the first,
// which must go without the other.
func (w *world) areClaimsAgain(first, other string) {
	w.Helper()
	w.inStep(first, other)
	w.deleteObject(first)
	w.goes(first)
	w.live(other)
}

func (w *world) deleteDefinition() {
	w.Helper()
	w.must(w.client.Patch(w.Context(), w.getDefinition(), client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"annotations":{"gitbind.dev/allow-deletion":"true"}}}`))))
	w.must(w.client.Delete(w.Context(), w.getDefinition()))
}

// definitionIsAnother waits until the definition is installed again.
func (w *world) definitionIsAnother(first types.UID) {
	w.Helper()
	w.eventually("the definition is installed again", func() error {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := w.client.Get(w.Context(), client.ObjectKey{Name: w.binding}, crd); err != nil {
			return err
		}
		if crd.UID == first {
			return errorf("it is the same")
		}
		return nil
	})
}

// deleteNamespace is what its protection lets a person do who means it.
func (w *world) deleteNamespace() {
	w.Helper()
	w.must(w.client.Patch(w.Context(), namespace(w.namespace), client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"annotations":{"gitbind.dev/allow-deletion":"true"}}}`))))
	w.must(w.client.Delete(w.Context(), namespace(w.namespace)))
}

// finalizeNamespace is what people do with a namespace that does not go.
func (w *world) finalizeNamespace() {
	w.Helper()
	w.eventually("the namespace is gone", func() error {
		ns := &corev1.Namespace{}
		err := w.client.Get(w.Context(), client.ObjectKey{Name: w.namespace}, ns)
		if apierrors.IsNotFound(err) {
			return nil
		}
		w.must(err)
		ns.Spec.Finalizers = nil
		return errorf("it is there: %v", w.client.SubResource("finalize").Update(w.Context(), ns))
	})
}

// heldFiles waits until the binding lists so many files, each for this reason.
func (w *world) heldFiles(reason string, n int) {
	w.Helper()
	w.eventually("held files", func() error {
		b := &v1alpha1.APIServiceBinding{}
		w.must(w.client.Get(w.Context(), client.ObjectKey{Name: w.binding}, b))
		for _, f := range b.Status.Held {
			if f.Reason != reason {
				return errorf("%+v", f)
			}
		}
		return cmpError(b.Status.HeldFiles, n)
	})
}

// otherSecond waits until the API server's clock, which counts in seconds, has gone on.
func (w *world) otherSecond(than *metav1.Time) {
	w.Helper()
	w.eventually("another second", func() error {
		if time.Now().Before(than.Add(time.Second)) {
			return errorf("not yet")
		}
		return nil
	})
}
