package app_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/test/env"
)

func TestManyDeletesAreHeldUntilApproved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.connection.Spec.Removals = &v1alpha1.RemovalLimits{Most: new(int32(0))}
	w.loop()
	names := w.claims(6)
	for _, name := range names[:4] {
		w.deleteObject(name)
	}
	w.held("ManyRemovals", names[:4]...)
	w.removalsHeld("4 claims are being deleted")
	for _, name := range names {
		w.fileIs(name, plan("small"))
	}
	w.resolve("c0", "release")
	w.eventually("it is made again", func() error {
		if u := w.get("c0"); u == nil || u.GetDeletionTimestamp() != nil {
			return errorf("%v", u)
		}
		return nil
	})
	w.approveRemovals()
	w.goes(names[1:4]...)
	w.inStep("c0", "c4", "c5")
	w.noRemovalsHeld()
	// Main tells its readers that a person has approved each.
	for _, name := range names[1:4] {
		path := w.key(name).Path()
		if got := w.git("log", "-1", "--format=%B", "main", "--", path); !strings.Contains(got, contract.TrailerApproved+": "+path) {
			t.Errorf("the removal of %s: %s", name, got)
		}
	}
	// The approval covers nothing that comes later.
	// The API server counts in seconds.
	approved := w.getConnection().Status.Approved.RemovalsTime.Time
	w.eventually("another second", func() error {
		if time.Now().Before(approved.Add(time.Second)) {
			return errorf("not yet")
		}
		return nil
	})
	w.deleteObject("c4")
	w.held("ManyRemovals", "c4")
}

func TestOneDeleteJustWorksAndCostsOneWrite(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	names := w.claims(5)
	// What was accepted is saved.
	w.stop()
	w.start()
	w.inStep(names...)
	w.noRemovalsHeld()
	w.writes.takeAll()
	w.deleteObject("c0")
	w.fileGone("c0")
	w.conditionIs("c0", "Committed", "Removed")
	if got := w.writes.take("gitbind.dev"); len(got) > 1 {
		t.Errorf("%d writes: %v", len(got), got)
	}
	if got := w.getConnection().Status.Removals; len(got) != 1 || got[0].Path != w.key("c0").Path() {
		t.Errorf("remembered: %+v", got)
	}
	if body := w.log("%B"); strings.Contains(body[0], contract.TrailerApproved) {
		t.Error("nobody has approved that")
	}
	w.goes("c0")
	w.live(names[1:]...)
}

func TestD22_NamespaceWithClaimsDeleted(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	names := w.claims(3)
	w.eventually("the policy knows", func() error {
		err := w.client.Delete(t.Context(), namespace(w.namespace), client.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), "holds claims") {
			return errorf("got %v", err)
		}
		return nil
	})
	w.must(w.client.Patch(t.Context(), namespace(w.namespace), client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"annotations":{"gitbind.dev/allow-deletion":"true"}}}`))))
	w.must(w.client.Delete(t.Context(), namespace(w.namespace)))
	head := w.head("main")
	w.held("NamespaceDeleted", names...)
	w.stop()
	w.start()
	w.held("NamespaceDeleted", names...)
	other := *w
	other.namespace = w.namespace + "-other"
	w.must(w.client.Create(t.Context(), namespace(other.namespace)))
	other.never("main changes", func() bool { return w.changedSince(head) })
	// In another namespace a plain delete is one as ever.
	for i := range 6 {
		other.apply(fmt.Sprint("o", i), spec("small"))
		other.inStep(fmt.Sprint("o", i))
	}
	other.deleteObject("o0")
	other.goes("o0")

	w.resolve("c0", "delete")
	w.goes("c0")
	w.resolve("c1", "release")
	w.resolve("c2", "release")
	w.eventually("the namespace goes", func() error {
		err := w.client.Get(t.Context(), client.ObjectKey{Name: w.namespace}, namespace(""))
		if !apierrors.IsNotFound(err) {
			return errorf("got %v", err)
		}
		return nil
	})
	w.fileIs("c1", plan("small"))
	w.fileIs("c2", plan("small"))
	w.must(w.client.Create(t.Context(), namespace(w.namespace)))
	w.inStep("c1", "c2")
}

func TestD22_BoundCRDDeleted(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	names := w.claims(3)
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: w.binding}}
	w.eventually("the policy is in force", func() error {
		err := w.client.Delete(t.Context(), crd, client.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), "bound API") {
			return errorf("got %v", err)
		}
		return nil
	})
	w.must(w.client.Patch(t.Context(), crd, client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"annotations":{"gitbind.dev/allow-deletion":"true"}}}`))))
	w.must(w.client.Delete(t.Context(), crd))
	head := w.head("main")
	w.terminates(names...)
	w.held("APIDeleted", names...)
	w.bindingIs("CRDTerminating")
	for _, name := range names {
		w.resolve(name, "release")
	}
	// The API comes back, and with it its objects.
	w.bindingIs("Bound")
	w.inStep(names...)
	if got := w.head("main"); got != head {
		t.Error("main changed")
	}
}

func TestD23_MovedFileIsNoDelete(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	w.claims(6)
	content := func(name string) []byte {
		data, err := w.main().Read(w.key(name).Path())
		w.must(err)
		return data
	}
	renamed := w.key("renamed").Path()
	// git mv, with the name in the file changed as it must be.
	w.pushFiles(map[string][]byte{w.key("c0").Path(): nil, renamed: []byte(strings.ReplaceAll(string(content("c0")), "name: c0", "name: renamed"))})
	if m := w.held("Moved", "c0"); !strings.Contains(m, renamed) {
		t.Errorf("it does not say where to: %s", m)
	}
	// The same, with one field changed.
	edited := w.key("edited").Path()
	w.pushFiles(map[string][]byte{w.key("c4").Path(): nil, edited: []byte(strings.NewReplacer("name: c4", "name: edited", "plan: small", "plan: medium").Replace(string(content("c4"))))})
	if m := w.held("Moved", "c4"); !strings.Contains(m, edited) {
		t.Errorf("it does not say where to: %s", m)
	}
	w.inStep("edited")
	// A file moved without editing it: it is no claim where it lies now.
	astray := w.key("astray").Path()
	w.pushFiles(map[string][]byte{w.key("c1").Path(): nil, astray: content("c1")})
	if m := w.held("Moved", "c1"); !strings.Contains(m, astray) {
		t.Errorf("it does not say where to: %s", m)
	}
	// One that leaves the tree of claims, while the konnector is away.
	w.stop()
	archive := "archive/c2.yaml"
	w.pushFiles(map[string][]byte{w.key("c2").Path(): nil, archive: content("c2")})
	w.start()
	if m := w.held("Moved", "c2"); !strings.Contains(m, archive) {
		t.Errorf("it does not say where to: %s", m)
	}
	w.inStep("renamed")
	w.stop()
	w.start()
	w.inStep("c3")
	w.stay("c0", "c1", "c2", "c4", "renamed")

	w.resolve("c0", "delete")
	w.goes("c0")
	w.resolve("c4", "delete")
	w.goes("c4")
	w.resolve("c1", "keep")
	w.inStep("c1")
	w.pushFiles(map[string][]byte{archive: nil, w.key("c2").Path(): content("c1")})
	w.pushFiles(map[string][]byte{astray: nil, w.key("c2").Path(): []byte(strings.ReplaceAll(string(content("c1")), "name: c1", "name: c2"))})
	w.inStep("c1", "c2", "renamed")
	w.live("c1", "c2", "renamed", "c3")
}

// A file that moved while nobody looked, and whose new object is made first.
func TestD23_MoveSurvivesARestart(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	w.claims(6)
	w.stop()
	data, err := w.main().Read(w.key("c0").Path())
	w.must(err)
	w.pushFiles(map[string][]byte{w.key("c0").Path(): nil, w.key("renamed").Path(): []byte(strings.ReplaceAll(string(data), "name: c0", "name: renamed"))})
	w.start()
	w.held("Moved", "c0")
	w.inStep("renamed")
	for range 2 {
		w.stop()
		w.start()
		w.inStep("c1")
		w.stay("c0", "renamed")
	}
}

func TestC2_NamespacesOfAConnection(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.connection.Spec.Namespaces = []string{w.namespace, "prod-*"}
	w.loop()
	w.apply("inside", spec("small"))
	w.inStep("inside")

	outside := *w
	outside.namespace = w.namespace + "-x"
	w.must(w.client.Create(t.Context(), namespace(outside.namespace)))
	outside.apply("orders", spec("small"))
	if m := outside.held("NotServed", "orders"); !strings.Contains(m, outside.namespace) || !strings.Contains(m, w.name) {
		t.Errorf("it does not say why: %s", m)
	}
	if _, ok := w.main().Entry(outside.key("orders").Path()); ok {
		t.Error("it was committed")
	}
	// Nor does a file there make an object.
	outside.commit("by-git", "service: a9s-postgresql13", "plan: small")
	w.heldFile("NotServed", outside.namespace)
	if outside.get("by-git") != nil {
		t.Error("it was made")
	}
	// What does not belong here is not held when it goes.
	outside.deleteObject("orders")
	outside.objectGone("orders")

	// The setting may change: then they belong.
	outside.apply("later", spec("small"))
	outside.held("NotServed", "later")
	w.eventually("change the setting", func() error {
		c := w.getConnection()
		c.Spec.Namespaces = []string{w.namespace + "*"}
		return w.client.Update(t.Context(), c)
	})
	outside.inStep("later", "by-git")
	w.heldFile("", "")
	// And be taken back: nothing goes for that.
	w.eventually("change the setting", func() error {
		c := w.getConnection()
		c.Spec.Namespaces = []string{w.namespace}
		return w.client.Update(t.Context(), c)
	})
	outside.held("NotServed", "later", "by-git")
	outside.commit("by-git")
	outside.deleteObject("later")
	outside.held("NotServed", "later")
	w.commit("next", "service: a9s-postgresql13")
	w.committed("next")
	outside.stay("by-git")
	w.live("inside")
}

// Objects from a backup have owners that are no more, and Kubernetes collects them.
func TestL4_GarbageCollectedClaimIsHeld(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	// Those that are held count beside one that may go.
	names := w.claims(8)
	owner := func(uid types.UID) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: "v1", Kind: "Namespace", Name: w.namespace, UID: uid}
	}
	own := func(name string, owners ...metav1.OwnerReference) {
		w.edit(name, func(u *unstructured.Unstructured) { u.SetOwnerReferences(owners) })
	}
	ns := namespace("")
	w.must(w.client.Get(t.Context(), client.ObjectKey{Name: w.namespace}, ns))
	// The konnector may not read Secrets: what it cannot know is held.
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "owner"}}
	w.must(w.client.Create(t.Context(), secret))
	own("c1", metav1.OwnerReference{APIVersion: "v1", Kind: "Secret", Name: secret.Name, UID: secret.UID})
	own("c2", owner("of-before"), owner(ns.UID))
	head := w.head("main")
	own("c0", owner("of-before"))
	// The garbage collector has to know of the claims' API.
	w.must(w.env.Cluster(env.App).Rediscover(t.Context()))
	w.await(patienceAtStart, "c0 terminates", func() error {
		if u := w.get("c0"); u == nil || u.GetDeletionTimestamp() == nil {
			return fmt.Errorf("it does not: %v", u)
		}
		return nil
	})
	w.deleteObject("c1")
	if m := w.held("OwnerDeleted", "c0", "c1"); !strings.Contains(m, "ownerReferences") {
		t.Errorf("it does not say why: %s", m)
	}
	w.stop()
	w.start()
	w.held("OwnerDeleted", "c0", "c1")
	w.never("main changes", func() bool { return w.changedSince(head) })
	// One with an owner that lives was deleted by a person.
	w.deleteObject("c2")
	w.goes("c2")
	w.resolve("c0", "release")
	w.inStep("c0")
	w.resolve("c1", "delete")
	w.goes("c1")
	w.live(names[0])
}
