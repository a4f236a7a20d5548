package app_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/app"
)

// scenario is a control plane that offers one API, with a running bridge.
func scenario(t *testing.T) (*world, v1alpha1.ExportedAPI) {
	w := newWorld(t)
	postgresql := w.define(postgresqlFile)
	// Otherwise it takes half a minute until its objects are deleted.
	w.must(w.control().Rediscover(t.Context()))
	w.startBridge()
	return w, postgresql
}

// order puts n claims on main, and waits until they are applied, and nothing more is about
// to be written to status. Their plans differ from each other in a parameter.
func (t *tenant) order(n int) []string {
	t.Helper()
	files := map[string]string{}
	var paths []string
	for i := range n {
		p := path(t.apis[0], "team-a", fmt.Sprintf("db-%d", i))
		paths, files[p] = append(paths, p), manifest(p, plan(i))
	}
	t.push("Order", files)
	for _, p := range paths {
		t.wantAnswer(p, contract.Applied)
	}
	// It is published beside the answers, not before them.
	t.eventually("the API is published", func() error { _, err := t.exported(t.apis[0]); return err })
	t.wantObserved()
	return paths
}

func plan(i int) string { return nano + fmt.Sprintf("\n  parameters: {maxConnections: %d}", 100+i) }

// remove removes files with one commit.
func (t *tenant) remove(paths ...string) string {
	t.Helper()
	files := map[string]string{}
	for _, p := range paths {
		files[p] = ""
	}
	return t.push("Cancel", files)
}

// uids are those of the objects of claims, "" for none.
func (t *tenant) uids(paths []string) []string {
	t.Helper()
	var out []string
	for _, p := range paths {
		uid := ""
		if u := t.object(p); u != nil && u.GetDeletionTimestamp() == nil {
			uid = string(u.GetUID())
		}
		out = append(out, uid)
	}
	return out
}

// wantUntouched fails when a service is not the one that it was.
func (t *tenant) wantUntouched(paths, uids []string) {
	t.Helper()
	for i, uid := range t.uids(paths) {
		if uid != uids[i] {
			t.Fatalf("%s: its object was %q and is %q", paths[i], uids[i], uid)
		}
	}
}

// wantAgreement waits until each claim on main is applied as it is there, and
// status answers main's head.
func (t *tenant) wantAgreement() {
	t.Helper()
	main, err := t.main.Fetch(t.Context())
	t.must(err)
	for e := range main.List(contract.Root) {
		t.eventually(e.Path+" is applied as it is on main", func() error {
			s := t.answer(e.Path)
			if s == nil || s.Result != contract.Applied || s.Answers.Blob != string(e.Hash) {
				return fmt.Errorf("answer %+v", s)
			}
			if t.object(e.Path) == nil {
				return errors.New("there is no object")
			}
			return nil
		})
	}
	t.wantObserved()
	t.wantSynced("Following")
}

func (t *tenant) force(to string) {
	t.Helper()
	t.host.run(t.id, "update-ref", "refs/heads/main", to)
	t.host.tell(t.id)
}

func (t *tenant) approve(annotation, value string) {
	t.Helper()
	t.annotate(t.clusterBinding(), annotation, value)
}

func TestD5_ControlPlaneRebuiltEmpty(t *testing.T) {
	w, postgresql := scenario(t)
	w.bridge.stop()
	empty, err := w.control().Snapshot(t.Context())
	w.must(err)
	w.startBridge()
	tn := w.tenant(postgresql)
	paths := tn.order(6)
	before := w.host.head(tn.id, "status")
	w.bridge.stop()
	w.must(w.control().Restore(t.Context(), empty))
	w.startBridge()
	tn.apis = nil
	tn.setUp()

	wantNothing := func(when string) {
		t.Helper()
		tn.wantSynced("ControlPlaneLost")
		for _, p := range paths {
			if tn.object(p) != nil {
				t.Fatalf("%s: %s was made again, empty", when, p)
			}
		}
		if got := w.host.head(tn.id, "status"); got != before {
			t.Errorf("%s: status was written:\n%s", when, w.host.run(tn.id, "log", "--format=%s", before+"..status"))
		}
	}
	wantNothing("before the API is bound")
	tn.bind(postgresql)
	tn.push("Meanwhile", map[string]string{paths[0]: manifest(paths[0], small), path(postgresql, "team-a", "later"): manifest(path(postgresql, "team-a", "later"), nano)})
	wantNothing("with the API bound")
	w.bridge.stop()
	w.startBridge()
	wantNothing("after a restart")

	// A person decides for some: the others are too many still, and then for all.
	tn.approve(v1alpha1.RecreateEmptyAnnotation, paths[5])
	tn.wantSynced("ControlPlaneLost")
	tn.approve(v1alpha1.RecreateEmptyAnnotation, paths[5]+",\n"+contract.ClaimsPath(postgresql.BindingName())+"/team-a/")
	tn.wantAgreement()
	tn.wantObject(paths[0], "spec.plan", "postgresql-single-small")
	tn.eventually("the approval is used up", func() error {
		return is(tn.clusterBinding().Annotations[v1alpha1.RecreateEmptyAnnotation], "")
	})
}

func TestD5_ControlPlaneRestoredFromAnOlderBackup(t *testing.T) {
	w, postgresql := scenario(t)
	tn := w.tenant(postgresql)
	paths := tn.order(8)
	uids := tn.uids(paths)
	w.bridge.stop()
	backup, err := w.control().Snapshot(t.Context())
	w.must(err)
	w.startBridge()
	tn.push("Grow", map[string]string{paths[0]: manifest(paths[0], small)})
	tn.wantObject(paths[0], "spec.plan", "postgresql-single-small")
	tn.remove(paths[1])
	tn.wantAnswer(paths[1], contract.Gone)
	later := path(postgresql, "team-a", "later")
	tn.push("Order", map[string]string{later: manifest(later, nano)})
	tn.wantAnswer(later, contract.Applied)
	tn.wantObserved()
	w.bridge.stop()
	w.must(w.control().Restore(t.Context(), backup))
	w.startBridge()

	// The one that was ordered since would be empty: a person decides. All others
	// are found, as they should be.
	tn.wantAnswer(later, contract.Lost, "--recreate-empty "+later)
	tn.wantObject(paths[0], "spec.plan", "postgresql-single-small")
	if tn.object(later) != nil {
		t.Error("it was made again")
	}
	tn.eventually("what was let go then goes again", func() error {
		if tn.object(paths[1]) != nil {
			return errors.New("it is there")
		}
		return nil
	})
	tn.wantAnswer(paths[1], contract.Gone)
	tn.wantUntouched(append(paths[2:], paths[0]), append(uids[2:], uids[0]))
	tn.approve(v1alpha1.RecreateEmptyAnnotation, later)
	tn.wantAgreement()
	tn.wantUntouched(paths[2:], uids[2:])
}

// TestD5_AnAPIThatGoesAway deletes a definition, which takes all its objects with
// it.
func TestD5_AnAPIThatGoesAway(t *testing.T) {
	w, postgresql := scenario(t)
	tn := w.tenant(postgresql)
	paths := tn.order(6)
	before := w.host.head(tn.id, "status")
	w.must(w.admin.Delete(t.Context(), &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: postgresql.BindingName()}}))
	tn.wantSynced("ControlPlaneLost")
	tn.eventually("the definition is gone", func() error {
		err := w.admin.Get(t.Context(), client.ObjectKey{Name: postgresql.BindingName()}, &apiextensionsv1.CustomResourceDefinition{})
		if err == nil {
			return errors.New("it is there")
		}
		return client.IgnoreNotFound(err)
	})
	w.createDefinition(postgresqlFile)
	w.eventually("the API is served again", func() error {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion("anynines.com/v1")
		list.SetKind("PostgresqlInstanceList")
		return w.admin.List(t.Context(), list)
	})
	tn.push("Meanwhile", map[string]string{paths[0]: manifest(paths[0], small)})
	tn.wantSynced("ControlPlaneLost")
	for _, p := range paths {
		if tn.object(p) != nil {
			t.Errorf("%s was made again, empty", p)
		}
	}
	if got := w.host.head(tn.id, "status"); got != before {
		t.Errorf("status was written:\n%s", w.host.run(tn.id, "log", "--format=%s", before+"..status"))
	}
	tn.approve(v1alpha1.RecreateEmptyAnnotation, contract.BindingPath(postgresql.BindingName()))
	tn.wantAgreement()
}

func TestD25_ClaimObjectDeletedByAnAdmin(t *testing.T) {
	w, postgresql := scenario(t)
	tn := w.tenant(postgresql)
	paths := tn.order(8)
	uids := tn.uids(paths)
	w.must(w.admin.Delete(t.Context(), tn.object(paths[0])))
	w.must(w.admin.Delete(t.Context(), tn.object(paths[1])))
	for _, p := range paths[:2] {
		tn.wantAnswer(p, contract.Lost, "missing on the control plane", "--recreate-empty "+p)
	}
	tn.push("Change", map[string]string{paths[0]: manifest(paths[0], small), paths[2]: manifest(paths[2], small)})
	tn.wantObject(paths[2], "spec.plan", "postgresql-single-small")
	tn.wantObserved()
	w.bridge.stop()
	w.startBridge()
	tn.wantSynced("Following")
	tn.push("Change", map[string]string{paths[3]: manifest(paths[3], small)})
	tn.wantObject(paths[3], "spec.plan", "postgresql-single-small")
	if tn.object(paths[0]) != nil || tn.object(paths[1]) != nil {
		t.Fatal("it was made again, empty")
	}

	tn.approve(v1alpha1.RecreateEmptyAnnotation, paths[0])
	tn.wantObject(paths[0], "spec.plan", "postgresql-single-small")
	tn.eventually("the approval is used up", func() error {
		return is(tn.clusterBinding().Annotations[v1alpha1.RecreateEmptyAnnotation], "")
	})
	if s := tn.answer(paths[1]); s.Result != contract.Lost || tn.object(paths[1]) != nil {
		t.Errorf("another one was made again: %+v", s)
	}
	// Or it is not wanted any more.
	tn.remove(paths[1])
	tn.wantAnswer(paths[1], contract.Gone)
	tn.wantUntouched(paths[2:], uids[2:])
	tn.wantAgreement()
	// What was approved once is lost again.
	w.must(w.admin.Delete(t.Context(), tn.object(paths[0])))
	tn.wantAnswer(paths[0], contract.Lost)
}

func TestD26_CreatedAndDeletedBeforeTheBridgeLooked(t *testing.T) {
	w, postgresql := scenario(t)
	tn := w.tenant(postgresql)
	paths := tn.order(6)
	uids := tn.uids(paths)
	w.bridge.stop()
	one, again := path(postgresql, "team-a", "one"), path(postgresql, "team-a", "again")
	tn.push("Order", map[string]string{one: manifest(one, nano), again: manifest(again, nano)}, object(one, "u1"), object(again, "u2"))
	tn.push("Cancel", map[string]string{one: ""}, object(one, "u1"))
	tn.push("Cancel", map[string]string{again: ""}, object(again, "u2"))
	tn.push("Order again", map[string]string{again: manifest(again, small)}, object(again, "u3"))
	w.startBridge()
	s := tn.wantAnswer(one, contract.Gone)
	if s.UID != "u1" || s.Since == "" {
		t.Errorf("tombstone %+v", s)
	}
	if s := tn.wantAnswer(again, contract.Applied); s.UID != "u3" {
		t.Errorf("answer %+v", s)
	}
	tn.wantUntouched(paths, uids)
	if tn.object(one) != nil {
		t.Error("it was made")
	}
	tn.wantSynced("Following")
}

// TestD21_BridgeGitHostRestoredFromAnOlderBackup is the control plane's half.
func TestD21_BridgeGitHostRestoredFromAnOlderBackup(t *testing.T) {
	w, postgresql := scenario(t)
	for _, restarted := range []bool{false, true} {
		t.Run(fmt.Sprintf("restarted=%v", restarted), func(t *testing.T) {
			tn := w.with(t).tenant(postgresql)
			paths := tn.order(5)
			oldMain, oldStatus := w.host.head(tn.id, "main"), w.host.head(tn.id, "status")
			later := path(postgresql, "team-a", "later")
			tn.push("Order", map[string]string{later: manifest(later, nano)})
			tn.wantAnswer(later, contract.Applied)
			tn.remove(paths[4])
			tn.wantAnswer(paths[4], contract.Gone)
			good := tn.push("Grow", map[string]string{paths[0]: manifest(paths[0], small)})
			tn.wantObject(paths[0], "spec.plan", "postgresql-single-small")
			before := tn.wantObserved()
			all := slices.Concat(paths[:4], []string{later})
			uids := tn.uids(all)

			if restarted {
				w.bridge.stop()
			}
			w.host.run(tn.id, "update-ref", "refs/heads/main", oldMain)
			w.host.run(tn.id, "update-ref", "refs/heads/status", oldStatus)
			w.host.tell(tn.id)
			if restarted {
				w.startBridge()
			}
			tn.wantSynced("MainRewritten")
			tn.wantUntouched(all, uids)
			if tn.object(paths[4]) != nil {
				t.Error("what went came back")
			}
			// The konnector, or a person's clone, still has what was lost.
			tn.force(good)
			tn.wantAgreement()
			tn.wantAnswer(paths[4], contract.Gone)
			tn.wantUntouched(all, uids)
			if after := tn.wantObserved(); after.Epoch != before.Epoch || after.Sequence <= before.Sequence {
				t.Errorf("observed %+v after %+v", after, before)
			}
		})
	}
}

// TestD23_BridgeMovedClaimFile is the control plane's half.
func TestD23_BridgeMovedClaimFile(t *testing.T) {
	w, postgresql := scenario(t)
	tn := w.tenant(postgresql)
	paths := tn.order(8)
	uids := tn.uids(paths)
	move := func(from, to, content string) string {
		t.Helper()
		return tn.push("Move", map[string]string{from: "", to: content})
	}
	renamed := path(postgresql, "team-a", "renamed")
	head := move(paths[0], renamed, manifest(renamed, plan(0)))
	s := tn.wantAnswer(paths[0], contract.Held, renamed, "--removals "+head)
	if s.Reason != contract.Moved {
		t.Errorf("%+v", s)
	}
	tn.wantAnswer(renamed, contract.Applied)

	edited := path(postgresql, "team-a", "edited")
	head = move(paths[3], edited, manifest(edited, plan(7)))
	if s := tn.wantAnswer(paths[3], contract.Held, edited, "--removals "+head); s.Reason != contract.Moved {
		t.Errorf("%+v", s)
	}

	astray := "bindings/" + postgresql.BindingName() + "/claims/team-b/db-1.yaml"
	move(paths[1], astray, manifest(paths[1], plan(1)))
	tn.wantAnswer(paths[1], contract.Held, astray)
	tn.wantAnswer(astray, contract.Invalid)

	w.bridge.stop()
	away := path(postgresql, "team-c", "db-2")
	move(paths[2], away, manifest(away, plan(2)))
	w.startBridge()
	tn.wantAnswer(paths[2], contract.Held, away)
	tn.wantUntouched(paths, uids)
	tn.wantSynced("RemovalsHeld")
	tn.eventually("the repository, whose removals wait for a person, is followed", func() error {
		if n, _ := counted("gitbind_bridge_following", map[string]string{"cluster": tn.id}); n != 1 {
			return fmt.Errorf("it says %v", n)
		}
		return nil
	})

	// One is moved back, the others are meant.
	move(astray, paths[1], manifest(paths[1], plan(1)))
	tn.wantAnswer(paths[1], contract.Applied)
	tn.approve(v1alpha1.ApproveRemovalsAnnotation, w.host.head(tn.id, "main"))
	tn.wantAnswer(paths[0], contract.Gone)
	tn.wantAnswer(paths[2], contract.Gone)
	tn.wantAnswer(paths[3], contract.Gone)
	tn.wantUntouched(append(paths[4:], paths[1]), append(uids[4:], uids[1]))
	tn.wantAgreement()
}

func TestTheHistoryOfStatusIsCut(t *testing.T) {
	w := newWorld(t)
	postgresql := w.define(postgresqlFile)
	w.startBridgeWith(app.Options{StatusHistory: 10})
	tn := w.tenant(postgresql)
	paths := tn.order(3)
	before := tn.wantObserved()
	for i := range 15 {
		tn.setStatus(paths[0], map[string]any{"managed": map[string]any{"readyReplicas": int64(i)}})
		tn.push("Change", map[string]string{paths[1]: manifest(paths[1], plan(200+i))})
		tn.wantObserved()
	}
	tn.eventually("it is cut", func() error {
		if n := w.host.run(tn.id, "rev-list", "--count", "status"); len(n) > 1 && n > "14" {
			return fmt.Errorf("%s commits", n)
		}
		return nil
	})
	after := tn.wantObserved()
	if after.Epoch != before.Epoch || after.Sequence <= before.Sequence || after.Cut == 0 {
		t.Errorf("observed %+v after %+v", after, before)
	}
	tn.wantAgreement()
	w.bridge.stop()
	head := w.host.head(tn.id, "status")
	w.startBridgeWith(app.Options{StatusHistory: 10})
	tn.wantSynced("Following")
	tn.push("Change", map[string]string{paths[1]: manifest(paths[1], small)})
	tn.wantAgreement()
	if w.host.head(tn.id, "status") == head {
		t.Error("nothing was written")
	}
	w.host.check(t, tn.id, "--strict")
}
