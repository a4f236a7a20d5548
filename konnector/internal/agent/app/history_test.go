package app_test

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
)

// D6: whatever happens to main as a whole deletes nothing, is said, and ends with
// all in agreement, by a repair or by a person's word.

func TestD6_ForcePushed(t *testing.T) {
	t.Parallel()
	forced := func(t *testing.T) (w *world, names []string, last string) {
		w = newLoop(t)
		names = w.claims(4)
		last = w.head("main")
		// Somebody rewrites history: c0 as it was, c1 with another plan, no c2, c3.
		tree := w.git("-c", "core.worktree="+t.TempDir(), "rev-parse", last+"^{tree}")
		w.force("main", w.git("-c", "user.name=Eve", "-c", "user.email=eve@example.org", "commit-tree", "-m", "rewritten", tree))
		w.person = w.host.open("Ada", "ada@example.org").Branch("main")
		w.commit("c1", "service: a9s-postgresql13", "plan: big")
		w.removeFiles("c2", "c3")

		w.connectionIs("HistoryReplaced")
		w.held("HistoryReplaced", "c1", "c2", "c3")
		w.objectIs("c1", plan("small"))
		w.setSpec("c0", "medium", "plan")
		w.conditionIs("c0", "Committed", "Held")
		w.live(names...)
		w.stop()
		w.start()
		w.connectionIs("HistoryReplaced")
		w.stay(names...)
		return w, names, last
	}
	t.Run("and put back", func(t *testing.T) {
		t.Parallel()
		w, names, last := forced(t)
		w.force("main", last)
		w.connectionIs("Connected")
		w.inStep(names...)
		w.fileIs("c0", plan("medium"))
		w.objectIs("c1", plan("small"))
	})
	t.Run("and approved", func(t *testing.T) {
		t.Parallel()
		w, names, last := forced(t)
		// The word for another commit is none for this one.
		w.approve(v1alpha1.ApproveMainAnnotation, last)
		w.answer("c0", contract.Status{Result: contract.Denied})
		w.refusedFiles(1)
		if got := w.getConnection().Status.AcceptedCommit; got != last {
			t.Errorf("it is taken: %s is accepted", got)
		}
		w.approveMain()
		w.connectionIs("Connected")
		// What main has counts, what it lacks is a person's to decide, one by one.
		w.objectIs("c1", plan("big"))
		w.keptOn("c1", "plan: small")
		w.held("FileMissing", "c2", "c3")
		w.live(names...)
		w.fileIs("c0", plan("medium"))
		w.resolve("c2", "keep")
		w.inStep("c0", "c2")
		w.resolve("c3", "delete")
		w.goes("c3")
		// From here on it is a history as any other.
		w.committed("c1")
		w.removeFiles("c1")
		w.goes("c1")
		w.live("c0", "c2")
		w.noRemovalsHeld()
	})
}

// refusedFiles waits until the Connection lists so many files that the control plane refuses.
func (w *world) refusedFiles(n int) {
	w.Helper()
	w.eventually("refused files", func() error { return cmpError(n, w.getConnection().Status.RefusedFiles) })
}

func TestD6_Emptied(t *testing.T) {
	t.Parallel()
	emptied := func(t *testing.T) (*world, []string) {
		w := newLoop(t)
		names := w.claims(5)
		w.removeFiles(names...)
		w.held("ManyRemovals", names...)
		w.removalsHeld("the files of 5 claims are gone")
		w.live(names...)
		w.stop()
		w.start()
		w.removalsHeld("the files of 5 claims are gone")
		w.stay(names...)
		return w, names
	}
	t.Run("and reverted", func(t *testing.T) {
		t.Parallel()
		w, names := emptied(t)
		files := map[string][]byte{}
		for _, name := range names {
			files[w.key(name).Path()] = w.file(name, "service: a9s-postgresql13", "plan: small")
		}
		w.pushFiles(files)
		w.inStep(names...)
		w.noRemovalsHeld()
	})
	t.Run("and approved", func(t *testing.T) {
		t.Parallel()
		w, names := emptied(t)
		w.approveRemovals()
		w.goes(names...)
		w.noRemovalsHeld()
		// That was for these.
		again := w.claims(5)
		w.removeFiles(again...)
		w.held("ManyRemovals", again...)
		w.live(again...)
	})
	t.Run("and decided one by one", func(t *testing.T) {
		t.Parallel()
		w, names := emptied(t)
		w.resolve("c0", "delete")
		w.goes("c0")
		for _, name := range names[1:] {
			w.resolve(name, "keep")
		}
		w.inStep(names[1:]...)
		w.noRemovalsHeld()
	})
}

func TestD6_ReplacedByAnotherRepository(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	names := w.claims(3)
	w.observed("e1", 10)
	w.applied(names...)
	w.stop()
	// Another one at the same URL, with a claim of its own, and a control plane
	// that knows nothing of this cluster.
	for _, ref := range []string{"main", "status"} {
		w.force(ref, "")
	}
	w.person = w.host.open("Ada", "ada@example.org").Branch("main")
	w.bridge = w.host.open("gitbridge", "gitbridge@control-plane.gitbind.dev").Branch("status")
	w.commit("stranger", "service: a9s-postgresql13", "plan: small")
	w.observed("e2", 1)

	w.start()
	w.connectionIs("HistoryReplaced")
	w.held("HistoryReplaced", names...)
	if w.get("stranger") != nil {
		t.Error("what a stranger wants was made")
	}
	w.live(names...)
	// A delete goes nowhere, and the status of the stranger lets nothing go.
	w.deleteObject("c0")
	w.never("it goes", func() bool { return w.get("c0") == nil })

	w.approveMain()
	w.connectionIs("Connected")
	w.inStep("stranger")
	w.held("FileMissing", "c1", "c2")
	w.resolve("c1", "keep")
	w.resolve("c2", "keep")
	w.inStep("c1", "c2")
	// The approval was for the status, too. That it never heard of a service does
	// not mean that there is none; that it says so of this object does.
	w.observed("e2", 2)
	w.applied("stranger")
	w.never("it goes", func() bool { return w.get("c0") == nil })
	w.answer("c0", contract.Status{Result: contract.Gone, UID: string(w.get("c0").GetUID())})
	w.objectGone("c0")
}

func TestD21_GitHostRestoredFromAnOlderBackup(t *testing.T) {
	t.Parallel()
	restored := func(t *testing.T) (w *world, main, status string) {
		w = newLoop(t)
		names := w.claims(6)
		w.observed("e1", 10)
		backupMain, backupStatus := w.head("main"), w.head("status")
		w.setSpec("c0", "big", "plan")
		w.apply("new", spec("medium"))
		w.inStep(append(slices.Clone(names), "new")...)
		w.observed("e1", 20)
		w.deleteObject("c2")
		w.goes("c2")
		main, status = w.head("main"), w.head("status")
		w.stop()
		if got := w.getConnection().Status; got.AcceptedCommit != main || got.Observed == nil || got.Observed.Sequence != 20 {
			t.Fatalf("it is not remembered: %+v", got)
		}

		w.force("main", backupMain)
		w.force("status", backupStatus)
		w.start()
		w.connectionIs("HistoryReplaced")
		w.held("HistoryReplaced", "c0", "new")
		w.objectIs("c0", plan("big"))
		w.stay("c0", "c1", "new")
		if w.get("c2") != nil {
			t.Error("what was deleted is back")
		}
		// A status that is older lets nothing go.
		w.deleteObject("c1")
		w.never("it goes", func() bool { return w.get("c1") == nil })
		return w, main, status
	}
	t.Run("and mended", func(t *testing.T) {
		t.Parallel()
		w, main, status := restored(t)
		w.force("status", status)
		w.force("main", main)
		w.connectionIs("Connected")
		w.inStep("c0", "new")
		w.goes("c1")
	})
	t.Run("and approved as it is", func(t *testing.T) {
		t.Parallel()
		w, _, _ := restored(t)
		w.person = w.host.open("Ada", "ada@example.org").Branch("main")
		w.bridge = w.host.open("gitbridge", "gitbridge@control-plane.gitbind.dev").Branch("status")
		w.approveMain()
		// What the object said is kept before the older file wins.
		w.objectIs("c0", plan("small"))
		w.keptOn("c0", "plan: big")
		w.held("FileMissing", "new")
		w.resolve("new", "keep")
		w.inStep("new")
		w.objectIs("c2", plan("small"))
		w.inStep("c2")
		w.observed("e1", 21)
		w.goes("c1")
		w.live("c0", "new", "c2")
	})
}

func TestD21_StatusBranchAloneIsAnother(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	names := w.claims(2)
	w.observed("e1", 10)
	uid := func(name string) string { return string(w.get(name).GetUID()) }
	w.answer("c0", contract.Status{Result: contract.Applied, UID: uid("c0"), Status: map[string]any{"managed": map[string]any{"x": "y"}}})
	w.conditionIs("c0", "Applied", "Applied")
	w.stop()
	w.start()
	w.conditionIs("c0", "Applied", "Applied")
	w.force("status", "")
	w.bridge = w.host.open("gitbridge", "gitbridge@control-plane.gitbind.dev").Branch("status")
	w.observed("e2", 100)
	m := w.connectionIs("StatusReplaced")
	if !strings.Contains(m, "kubectl gitbind approve --main "+w.head("main")) {
		t.Errorf("it does not say how to go on: %s", m)
	}
	// Work goes on in the other direction; the last status stays.
	w.setSpec("c1", "big", "plan")
	w.fileIs("c1", plan("big"))
	if x, _, _ := unstructured.NestedString(w.get("c0").Object, "status", "managed", "x"); x != "y" {
		t.Errorf("the status is gone: %v", w.get("c0").Object["status"])
	}
	w.deleteObject("c0")
	w.fileGone("c0")
	w.answer("c0", contract.Status{Result: contract.Gone, UID: uid("c0")})
	w.observed("e2", 101)
	w.answer("c1", contract.Status{Result: contract.Denied})
	w.refusedFiles(1)
	w.never("it is let go of", func() bool { return w.get("c0") == nil })
	// Nor after a restart, and the API stays as it is.
	w.stop()
	w.start()
	w.connectionIs("StatusReplaced")
	w.bindingIs("Bound")
	w.never("it is let go of", func() bool { return w.get("c0") == nil })

	w.publish(nil)
	w.approveMain()
	w.objectGone("c0")
	w.connectionIs("Connected")
	w.stay(slices.DeleteFunc(names, func(n string) bool { return n == "c0" })...)
}
