package app_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gitbind.dev/gitbridge/contract"
)

func TestApplyBecomesACommit(t *testing.T) {
	t.Parallel()
	w := newAttributedLoop(t)
	w.writes.takeAll()
	u := w.apply("orders", map[string]any{"service": "a9s-postgresql13", "plan": "small", "parameters": map[string]any{"maxConnections": int64(120)}})
	w.fileIs("orders", plan("small"))
	w.committed("orders")
	if n := w.writes.take(w.group); len(n) > 2 {
		t.Errorf("%d writes: %v", len(n), n)
	}

	message := w.host.run("-C", w.host.dir, "log", "-1", "--format=%an <%ae>%n%cn <%ce>%n%B", "main")
	for _, want := range []string{
		"alice <alice@k3x9d2abqw.clusters.gitbind.dev>\n",
		"konnector <konnector@k3x9d2abqw.clusters.gitbind.dev>\n",
		"claim: create " + w.namespace + "/orders (" + w.binding + ")\n",
		"Gitbind-Cluster: k3x9d2abqw\n",
		"Gitbind-Object: " + w.binding + "/" + w.namespace + "/orders uid=" + string(u.GetUID()) + " generation=1",
	} {
		if !strings.Contains(message, want) {
			t.Errorf("%q is not in:\n%s", want, message)
		}
	}
	got := w.get("orders")
	if got.GetAnnotations()["gitbind.dev/changed-by"] != "" {
		t.Error("changed-by was not cleared")
	}
	if commit, _, _ := unstructured.NestedString(got.Object, "status", "gitbind", "commit"); commit != string(w.main().Head()) {
		t.Errorf("commit %s, head %s", commit, w.main().Head())
	}
	// The file is the canonical one: what it says beside that is nothing.
	data, err := w.main().Read(w.key("orders").Path())
	w.must(err)
	want := strings.Join([]string{
		"apiVersion: " + w.group + "/v1", "kind: PostgresqlInstance", "metadata:", "  name: orders", "  namespace: " + w.namespace,
		"spec:", "  expose: Internal", "  parameters:", "    maxConnections: 120", "  plan: small", "  service: a9s-postgresql13", "",
	}, "\n")
	if diff := cmp.Diff(want, string(data)); diff != "" {
		t.Error(diff)
	}
}

func TestEditAndFieldRemovalGoUp(t *testing.T) {
	t.Parallel()
	w := newAttributedLoop(t)
	w.apply("orders", map[string]any{"service": "a9s-postgresql13", "plan": "small", "parameters": map[string]any{"maxConnections": int64(120), "logStatement": "ddl"}})
	w.committed("orders")
	w.writes.takeAll()
	w.setSpec("orders", "big", "plan")
	w.fileIs("orders", plan("big"))
	w.committed("orders")
	if n := w.writes.take(w.group); len(n) > 2 {
		t.Errorf("%d writes: %v", len(n), n)
	}
	w.setSpec("orders", nil, "parameters", "logStatement")
	w.fileIs("orders", func(spec map[string]any) error {
		return cmpError(map[string]any{"maxConnections": int64(120)}, spec["parameters"])
	})
	w.edit("orders", func(u *unstructured.Unstructured) { u.SetLabels(map[string]string{"cost-centre": "42"}) })
	w.eventually("label", func() error {
		data, err := w.main().Read(w.key("orders").Path())
		if err == nil && !strings.Contains(string(data), `cost-centre: "42"`) {
			return errorf("%s", data)
		}
		return err
	})
	if subjects := w.log("%s"); !strings.HasPrefix(subjects[0], "claim: update ") {
		t.Errorf("got %q", subjects)
	}
}

func TestCommitOfAPersonChangesTheObject(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	w.apply("orders", map[string]any{"service": "a9s-postgresql13", "plan": "small", "parameters": map[string]any{"logStatement": "ddl"}})
	w.committed("orders")
	w.writes.takeAll()
	commits := len(w.log("%h"))
	w.commit("orders", "service: a9s-postgresql13", "plan: medium # enough")
	w.objectIs("orders", func(spec map[string]any) error {
		return cmpError(map[string]any{"service": "a9s-postgresql13", "plan": "medium", "expose": "Internal"}, spec)
	})
	w.committed("orders")
	w.never("the konnector answers with a commit", func() bool { return len(w.log("%h")) > commits+1 })
	if n := w.writes.take(w.group); len(n) > 2 {
		t.Errorf("%d writes: %v", len(n), n)
	}
	data, err := w.main().Read(w.key("orders").Path())
	w.must(err)
	if string(data) != string(w.file("orders", "service: a9s-postgresql13", "plan: medium # enough")) {
		t.Errorf("the person's formatting is gone:\n%s", data)
	}
	// Formatting alone changes nothing here.
	w.writes.takeAll()
	w.commit("orders", "plan:   medium", "service: 'a9s-postgresql13'")
	w.commit("next", "service: a9s-postgresql13")
	w.committed("next")
	for _, got := range w.writes.take(w.group) {
		if strings.Contains(got, "/orders") {
			t.Errorf("it wrote: %s", got)
		}
	}
}

func TestFileBecomesAnObject(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	w.writes.takeAll()
	w.commit("orders", "service: a9s-postgresql13", "plan: small")
	w.objectIs("orders", plan("small"))
	w.committed("orders")
	u := w.get("orders")
	if f := u.GetFinalizers(); len(f) != 1 || f[0] != "gitbind.dev/claim" {
		t.Errorf("finalizers %v", f)
	}
	if n := w.writes.take(w.group); len(n) > 2 {
		t.Errorf("%d writes: %v", len(n), n)
	}
	// What it was made with is its base: an edit here goes up.
	w.setSpec("orders", "big", "plan")
	w.fileIs("orders", plan("big"))
}

func TestStatusComesDown(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	w.apply("orders", spec("small"))
	w.committed("orders")
	if _, reason, _ := condition(w.get("orders"), "Applied"); reason != "Waiting" {
		t.Errorf("reason %s", reason)
	}
	w.writes.takeAll()
	w.answer("orders", contract.Status{Result: contract.Applied, Status: map[string]any{
		"managed":        map[string]any{"readyReplicas": int64(1)},
		"conditions":     []any{map[string]any{"type": "Ready", "status": "True", "reason": "Available"}},
		"notInTheSchema": "here",
	}})
	w.conditionIs("orders", "Applied", "Applied")
	w.conditionIs("orders", "Ready", "Available")
	u := w.get("orders")
	if n, _, _ := unstructured.NestedInt64(u.Object, "status", "managed", "readyReplicas"); n != 1 {
		t.Errorf("status %v", u.Object["status"])
	}
	w.never("another write of the same", func() bool { return len(w.writes.take(w.group)) != 1 })

	// From here on the cache has a digest of the status, and no spec.
	before := w.get("orders")
	if !w.isAgreed("orders") {
		t.Errorf("it has to be kept whole: %v", before)
	}
	w.answer("orders", contract.Status{Result: contract.Applied, Status: map[string]any{"managed": map[string]any{"readyReplicas": int64(2)}}})
	w.conditionIs("orders", "Ready", "NotReported")
	u = w.get("orders")
	if diff := cmp.Diff(before.Object["spec"], u.Object["spec"]); diff != "" || !maps.Equal(before.GetAnnotations(), u.GetAnnotations()) || !maps.Equal(before.GetLabels(), u.GetLabels()) {
		t.Errorf("the status was written and with it changed: %s, from %v to %v", diff, before, u)
	}
	if n, _, _ := unstructured.NestedInt64(u.Object, "status", "managed", "readyReplicas"); n != 2 {
		t.Errorf("status %v", u.Object["status"])
	}

	w.setSpec("orders", "big", "plan")
	w.conditionIs("orders", "Applied", "Waiting")
	w.answer("orders", contract.Status{Result: contract.Denied, Problem: &contract.Problem{File: w.key("orders").Path(), Line: 9, Reason: "plan big is not allowed"}})
	if m := w.conditionIs("orders", "Applied", "Denied"); !strings.Contains(m, "plan big is not allowed") {
		t.Errorf("message %q", m)
	}
	w.eventually("the connection lists it", func() error {
		c := w.getConnection()
		if c.Status.RefusedFiles != 1 || c.Status.Refused[0].Line != 9 {
			return errorf("%+v", c.Status)
		}
		return nil
	})
}

func TestDeleteWaitsForTheTombstone(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	u := w.apply("orders", spec("small"))
	w.apply("next", spec("small"))
	w.inStep("orders", "next")
	w.applied("orders")
	w.deleteObject("orders")
	w.fileGone("orders")
	if s := w.log("%s|%an")[0]; !strings.HasPrefix(s, "claim: delete ") || !strings.HasSuffix(s, "|unknown") {
		t.Errorf("commit %q", s)
	}
	w.answer("orders", contract.Status{Result: contract.Deleting, UID: string(u.GetUID())})
	w.conditionIs("orders", "Applied", "Deleting")
	// A tombstone of another object is not ours.
	w.answerGone("orders", "other", strings.Repeat("1", 40))
	w.applied("next")
	w.never("it goes", func() bool { return w.get("orders") == nil })
	w.answer("orders", contract.Status{Result: contract.Gone, UID: string(u.GetUID())})
	w.objectGone("orders")
}

func TestRemovedFileDeletesTheObject(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	u := w.apply("orders", spec("small"))
	w.committed("orders")
	w.answer("orders", contract.Status{Result: contract.Applied, UID: string(u.GetUID())})
	removal := w.commit("orders")
	w.eventually("it terminates", func() error {
		if u := w.get("orders"); u == nil || u.GetDeletionTimestamp() == nil {
			return errorf("%v", u)
		}
		return nil
	})
	if got := w.getConnection().Status.AcceptedCommit; got != string(removal) {
		t.Errorf("accepted %s was saved, want %s", got, removal)
	}
	w.never("it goes", func() bool { return w.get("orders") == nil })
	w.answer("orders", contract.Status{Result: contract.Gone, UID: string(u.GetUID())})
	w.objectGone("orders")
}

// A claim that only pull requests ever touched: no commit names its object.
func TestFileAddedAndRemoved(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	w.commit("orders", "service: a9s-postgresql13", "plan: small")
	w.committed("orders")
	w.answer("orders", contract.Status{Result: contract.Applied})
	w.conditionIs("orders", "Applied", "Applied")
	w.commit("orders")
	w.eventually("it terminates", func() error {
		if u := w.get("orders"); u == nil || u.GetDeletionTimestamp() == nil {
			return errorf("%v", u)
		}
		return nil
	})
	w.answer("orders", contract.Status{Result: contract.Gone})
	w.objectGone("orders")
}

func TestDeletedBeforeTheBridgeLooked(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	w.apply("orders", spec("small"))
	w.committed("orders")
	w.observe()
	w.deleteObject("orders")
	w.fileGone("orders")
	w.never("it goes", func() bool { return w.get("orders") == nil })
	w.observe()
	w.objectGone("orders")
}

func TestRevertedRemovalIsNotRemovedAgain(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	w.apply("orders", spec("small"))
	w.committed("orders")
	data, err := w.main().Read(w.key("orders").Path())
	w.must(err)
	w.deleteObject("orders")
	w.fileGone("orders")
	w.conditionIs("orders", "Committed", "Removed")
	w.put(w.person, "Revert", w.key("orders").Path(), data)
	w.conditionIs("orders", "Held", "FileCameBack")
	w.never("it is removed again", func() bool { _, ok := w.main().Entry(w.key("orders").Path()); return !ok })
	// Released, it comes back from the file.
	uid := w.get("orders").GetUID()
	w.edit("orders", func(u *unstructured.Unstructured) { u.SetFinalizers(nil) })
	w.eventually("a new one", func() error {
		if u := w.get("orders"); u == nil || u.GetUID() == uid {
			return errorf("not yet")
		}
		return nil
	})
	w.committed("orders")
}

// The binding's own controller asks for eight rights each time that it looks.
func TestChangesOfAClaimHaveNobodyLookAtItsBinding(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	asked := func() int {
		w.writes.mu.Lock()
		defer w.writes.mu.Unlock()
		return w.writes.reviews
	}
	before, start := asked(), time.Now()
	w.apply("orders", spec("small"))
	w.committed("orders")
	for i := range 10 {
		w.setSpec("orders", int64(100+i), "parameters", "maxConnections")
		w.committed("orders")
		w.commit("orders", "service: a9s-postgresql13", "plan: small", fmt.Sprintf("parameters: {maxConnections: %d}", 200+i))
		w.objectIs("orders", field(int64(200+i), "parameters", "maxConnections"))
	}
	// There are other reasons to look, such as the first claim of a namespace, and that a
	// minute has passed.
	if n := asked() - before; n > (5+int(time.Since(start)/time.Minute))*8 {
		t.Errorf("the konnector asked for its rights %d times for 21 changes", n)
	}
}
