package app_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
)

func TestD3_AppClusterRestoredFromAnOldSnapshot(t *testing.T) {
	t.Parallel()
	c := clusters.Take(t)
	w := newWorldIn(t, c).loop()
	for _, name := range []string{"same", "edited", "pending", "edited-in-git", "deleted", "removed-in-git"} {
		w.apply(name, spec("small"))
	}
	w.inStep("same", "edited", "pending", "edited-in-git", "deleted", "removed-in-git")
	w.observed("e1", 10)
	w.stop()
	// An edit that the konnector has not committed yet, and a claim that it was about to.
	w.setSpec("pending", "medium", "plan")
	w.apply("begun", spec("small"))
	w.edit("begun", func(u *unstructured.Unstructured) { controllerutil.AddFinalizer(u, v1alpha1.Finalizer) })
	snapshot, err := c.env.Cluster("app").Snapshot(t.Context())
	w.must(err)
	w.start()

	// What the cluster will have forgotten.
	w.fileIs("pending", plan("medium"))
	for _, name := range []string{"edited", "pending"} {
		w.inStep(name)
		w.setSpec(name, "big", "plan")
		w.fileIs(name, plan("big"))
	}
	w.commit("edited-in-git", "service: a9s-postgresql13", "plan: big")
	w.objectIs("edited-in-git", plan("big"))
	w.apply("new", spec("medium"))
	w.inStep("same", "edited", "pending", "edited-in-git", "new", "begun")
	for _, name := range []string{"deleted", "begun"} {
		w.deleteObject(name)
		w.goes(name)
	}
	w.commit("removed-in-git")
	w.goes("removed-in-git")
	w.observed("e1", 20)
	before := w.head("main")
	w.stop()

	w.must(c.env.Cluster("app").Restore(t.Context(), snapshot))
	w.objectIs("edited", plan("small"))
	w.start()
	// Git is ahead: what it says comes, and nothing of what is older goes there.
	for _, name := range []string{"edited", "pending", "edited-in-git"} {
		w.objectIs(name, plan("big"))
	}
	w.objectIs("new", plan("medium"))
	w.inStep("same", "edited", "edited-in-git", "new")
	w.committed("pending")
	// These were deleted, and are deleted again.
	w.objectGone("deleted")
	w.objectGone("removed-in-git")
	// Of this one the snapshot does not know that main ever had it.
	w.conditionIs("begun", "Held", "ChangedAndRemoved")
	w.never("main changes", func() bool { return w.changedSince(before) })
	w.live("same", "edited", "pending", "edited-in-git", "new")
	// And it goes on.
	w.setSpec("edited", "small", "plan")
	w.fileIs("edited", plan("small"))
	w.commit("new", "service: a9s-postgresql13", "plan: small")
	w.objectIs("new", plan("small"))
	w.host.check()
}

// L6: a restored cluster in which the object was edited more often than before it was
// lost: its generations have nothing to do with those that the konnector pushed.
func TestL6_ARestoreWithMoreEditsThanWereLostOverwritesNothing(t *testing.T) {
	t.Parallel()
	c := clusters.Take(t)
	w := newWorldIn(t, c).loop()
	names := []string{"edited", "back"}
	for _, name := range names {
		w.apply(name, spec("small"))
	}
	w.inStep(names...)
	w.stop()
	snapshot, err := c.env.Cluster("app").Snapshot(t.Context())
	w.must(err)
	w.start()
	for _, name := range names {
		w.setSpec(name, "big", "plan")
		w.fileIs(name, plan("big"))
	}
	w.inStep(names...)
	w.stop()
	head := w.head("main")

	w.must(c.env.Cluster("app").Restore(t.Context(), snapshot))
	for _, statement := range []string{"none", "ddl", "all"} {
		w.setSpec("edited", statement, "parameters", "logStatement")
	}
	for _, p := range []string{"medium", "big", "small"} {
		w.setSpec("back", p, "plan")
	}
	w.start()
	for _, name := range names {
		w.objectIs(name, plan("big"))
		w.committed(name)
	}
	w.keptOn("edited", "logStatement: all")
	w.keptOn("back", "plan: small")
	if got := w.head("main"); got != head {
		t.Errorf("main was changed: %s", w.git("log", "-p", head+".."+got))
	}
}

func TestD4_AppClusterRebuiltEmpty(t *testing.T) {
	t.Parallel()
	c := clusters.Take(t)
	empty, err := c.env.Cluster("app").Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w := newWorldIn(t, c).loop()
	names := w.claims(5)
	w.commit("by-git", "service: a9s-postgresql13", "plan: medium # enough")
	names = append(names, "by-git")
	w.inStep(names...)
	for _, name := range names {
		w.answer(name, contract.Status{Result: contract.Applied, UID: string(w.get(name).GetUID()), Status: map[string]any{
			"managed": map[string]any{"host": name + ".example.org"},
		}})
	}
	w.observed("e1", 10)
	old := w.get("c0").GetUID()
	w.stop()
	head := w.head("main")

	// What `kubectl gitbind connect --reclaim` and `bind` leave behind, in a
	// cluster that has nothing else; not even the claims' namespace.
	w.must(c.env.Cluster("app").Restore(t.Context(), empty))
	w.connection.ResourceVersion, w.connection.UID = "", ""
	w.must(c.grant(t.Context(), w.plural, w.group))
	w.must(w.client.Create(t.Context(), w.connection))
	w.must(w.client.Create(t.Context(), w.secret()))
	w.bind()
	w.start()
	w.bindingIs("Bound")
	w.eventually("all files are held", func() error { return cmpError(len(names), w.getBinding().Status.HeldFiles) })
	w.must(w.client.Create(t.Context(), namespace(w.namespace)))

	w.inStep(names...)
	for _, name := range names {
		w.conditionIs(name, "Applied", "Applied")
		if host, _, _ := unstructured.NestedString(w.get(name).Object, "status", "managed", "host"); host != name+".example.org" {
			t.Errorf("status of %s did not come back: %v", name, w.get(name).Object["status"])
		}
	}
	w.never("a commit", func() bool { return w.changedSince(head) })
	if w.get("c0").GetUID() == old {
		t.Error("it is no other cluster")
	}

	// It is a cluster as any other: an edit goes up, a delete is one.
	w.setSpec("c1", "big", "plan")
	w.fileIs("c1", plan("big"))
	w.conditionIs("c1", "Applied", "Waiting")
	w.deleteObject("c0")
	w.fileGone("c0")
	// The tombstone of an object of the old cluster is not this one's.
	w.answerGone("c0", string(old), w.git("rev-list", "--max-parents=0", "main"))
	w.applied("c1")
	w.never("it goes", func() bool { return w.get("c0") == nil })
	w.goes("c0")
	w.commit("by-git")
	w.goes("by-git")
	w.live(names[1:5]...)
}

// A person who makes claims in the rebuilt cluster before it is connected, from
// manifests that are older than Git, takes nothing away from Git.
func TestD4_AppClusterRebuiltWithOlderManifests(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	w.apply("orders", spec("small"))
	w.inStep("orders")
	w.setSpec("orders", "big", "plan")
	w.fileIs("orders", plan("big"))
	w.inStep("orders")
	w.stop()
	// As good as another cluster: the object is made again, under another Connection.
	saved := w.get("orders")
	w.must(w.client.Delete(t.Context(), w.connection))
	w.edit("orders", func(u *unstructured.Unstructured) { u.SetFinalizers(nil) })
	w.deleteObject("orders")
	w.objectGone("orders")
	w.connection.ResourceVersion, w.connection.UID = "", ""
	w.must(w.client.Create(t.Context(), w.connection))
	w.apply("orders", spec("small"))
	w.start()
	w.objectIs("orders", plan("big"))
	w.fileIs("orders", plan("big"))
	w.committed("orders")
	if saved.GetUID() == w.get("orders").GetUID() {
		t.Error("it is not another object")
	}
	w.keptOn("orders", "plan: small")
}

// keptOn finds a version of a claim on a branch of its own.
func (w *world) keptOn(name, words string) {
	w.Helper()
	w.eventually("a branch that keeps "+words, func() error {
		refs := w.git("for-each-ref", "--format=%(refname)", "refs/heads/conflicts/")
		for ref := range strings.FieldsSeq(refs) {
			if strings.Contains(w.git("show", ref+":"+w.key(name).Path()), words) {
				return nil
			}
		}
		return errorf("not among %q", refs)
	})
}
