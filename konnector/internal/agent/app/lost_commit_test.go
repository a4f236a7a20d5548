package app_test

import (
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// L3: the Git host loses its last seconds, and the konnector ends without having saved
// what it accepted in them. Main descends from what it saved, and is older than the
// objects: that is no reason to undo edits that were acknowledged.
func TestL3_AnAcknowledgedEditOutlivesTheCommitThatHadIt(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	byPeople := []string{"kept", "undone", "merged"}
	w.apply("own", spec("small"))
	for _, name := range byPeople {
		w.commit(name, "service: a9s-postgresql13", "plan: small")
	}
	all := append(slices.Clone(byPeople), "own")
	w.inStep(all...)
	w.stop()
	backup := w.head("main")
	if saved := w.getConnection().Status.AcceptedCommit; saved != backup {
		t.Fatalf("it saved %s, not %s", saved, backup)
	}
	w.start()
	for _, name := range all {
		w.setSpec(name, "big", "plan")
		w.fileIs(name, plan("big"))
	}
	w.inStep(all...)
	lost := w.head("main")
	w.stop()
	w.setAccepted(backup)
	w.force("main", backup)
	w.person = w.host.open("Ada", "ada@example.org").Branch("main")
	w.commit("other", "service: a9s-postgresql13", "plan: small")
	w.start()
	w.inStep("other")

	// What the object had before, the konnector knows: the edit is committed again.
	w.fileIs("own", plan("big"))
	w.inStep("own")
	// Of what others wrote it cannot know whether they did so before the edit or since.
	m := w.held("CommitLost", byPeople...)
	if !strings.Contains(m, "main lacks commit ") || !strings.Contains(m, w.key("merged").Path()) {
		t.Errorf("message %q", m)
	}
	w.never("an edit is undone", func() bool {
		return slices.ContainsFunc(all, func(name string) bool {
			spec, _ := w.get(name).Object["spec"].(map[string]any)
			return plan("big")(spec) != nil
		})
	})
	w.resolve("kept", "cluster")
	w.fileIs("kept", plan("big"))
	w.resolve("undone", "file")
	w.objectIs("undone", plan("small"))
	w.keptOn("undone", "plan: big")
	w.inStep("own", "kept", "undone")
	// Somebody merges what was lost, and decides for the older file: then that is news.
	head := w.head("main")
	w.force("main", w.git("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "commit-tree", "-m", "Merge what was lost", "-p", head, "-p", lost, head+"^{tree}"))
	w.observed("e1", 10)
	w.objectIs("merged", plan("small"))
	w.inStep(append(all, "other")...)
}

// setAccepted plays a konnector that ended before it saved what it accepted.
func (w *world) setAccepted(commit string) {
	w.Helper()
	c := w.getConnection()
	before := c.DeepCopy()
	c.Status.AcceptedCommit = commit
	w.must(w.client.Status().Patch(w.Context(), c, client.MergeFrom(before)))
}
