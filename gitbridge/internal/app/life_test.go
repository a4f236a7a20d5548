package app_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/signing"
	"gitbind.dev/gitbridge/store"
)

func testLife(w *world, apis apis) {
	t := w.tenant(apis.postgresql)
	orders := path(apis.postgresql, "team-a", "orders")
	added := t.push("Order", map[string]string{orders: manifest(orders, nano+"\n  parameters: {maxConnections: 120}")}, object(orders, "u1"))
	u := t.wantObject(orders, "spec.plan", "postgresql-single-nano")
	want := map[string]any{
		"compositeDeletePolicy": "Foreground", "expose": "Internal", "parameters": map[string]any{"maxConnections": int64(120)},
		"plan": "postgresql-single-nano", "service": "a9s-postgresql13",
	}
	if diff := cmp.Diff(want, u.Object["spec"]); diff != "" {
		w.Errorf("spec (-want +got): %s", diff)
	}
	wantLabels := map[string]string{"gitbind.dev/cluster": t.id, "gitbind.dev/namespace": "team-a", "gitbind.dev/name": "orders"}
	if diff := cmp.Diff(wantLabels, u.GetLabels()); diff != "" {
		w.Errorf("labels (-want +got): %s", diff)
	}
	if got := u.GetAnnotations()["gitbind.dev/commit"]; got != added {
		w.Errorf("annotation with commit %s, want %s", got, added)
	}
	for _, f := range u.GetManagedFields() {
		if f.Manager != "gitbind" || f.Operation != metav1.ManagedFieldsOperationApply {
			w.Errorf("fields are owned by %s, %s", f.Manager, f.Operation)
		}
	}
	s := t.wantAnswer(orders, contract.Applied)
	if s.Answers.Commit != added || s.UID != "u1" || s.Object != u.GetNamespace()+"/orders" || s.Message != "" || s.Metadata.Name != "orders" {
		w.Errorf("answer %+v", s)
	}
	if o := t.wantObserved(); o.Commit != added || o.Epoch != t.clusterBinding().Status.Bridge.Epoch {
		w.Errorf("observed %+v", o)
	}

	t.setStatus(orders, map[string]any{"managed": map[string]any{"clusterStatus": "Running", "readyReplicas": int64(1)}})
	t.eventually("status travels", func() error {
		if diff := cmp.Diff(map[string]any{"managed": map[string]any{"clusterStatus": "Running", "readyReplicas": int64(1)}}, t.answer(orders).Status); diff != "" {
			return errors.New(diff)
		}
		return nil
	})

	changed := t.push("Grow", map[string]string{orders: manifest(orders, small)})
	u = t.wantObject(orders, "spec.plan", "postgresql-single-small")
	if _, ok, _ := unstructured.NestedMap(u.Object, "spec", "parameters"); ok {
		w.Error("parameters are still there though the file has none")
	}
	t.eventually("the change is answered", func() error { return is(t.answer(orders).Answers.Commit, changed) })
	if s := t.answer(orders); s.UID != "u1" || s.Status == nil {
		w.Errorf("answer %+v", s)
	}

	namespace := &corev1.Namespace{}
	w.must(w.admin.Get(w.Context(), client.ObjectKey{Name: u.GetNamespace()}, namespace))
	if namespace.Labels["gitbind.dev/cluster"] != t.id || namespace.Labels["gitbind.dev/cluster-uid"] != t.uid || namespace.Annotations["gitbind.dev/namespace"] != "team-a" {
		w.Errorf("namespace %v %v", namespace.Labels, namespace.Annotations)
	}

	removed := t.push("Cancel", map[string]string{orders: ""})
	s = t.wantAnswer(orders, contract.Gone)
	if s.UID != "u1" || s.Answers != (contract.Answers{Commit: removed}) || s.Object != "" {
		w.Errorf("tombstone %+v", s)
	}
	if t.object(orders) != nil {
		w.Error("gone is said, but the object is there")
	}
	if got := t.clusterBinding().Status.Bridge.AcceptedCommit; got != removed {
		w.Errorf("accepted %s, want %s, before anything was deleted", got, removed)
	}

	t.push("Order again", map[string]string{orders: manifest(orders, nano)}, object(orders, "u2"))
	if s := t.wantAnswer(orders, contract.Applied); s.UID != "u2" || s.Object == "" {
		w.Errorf("answer %+v", s)
	}
	t.wantSynced("Following")
}

func is(got, want string) error {
	if got != want {
		return fmt.Errorf("got %q, want %q", got, want)
	}
	return nil
}

// object is the trailer by which the konnector names an object.
func object(path, uid string) store.Trailer {
	key, err := contract.ParsePath(path)
	if err != nil {
		panic(err)
	}
	return store.Trailer{Key: contract.TrailerObject, Value: contract.ObjectTrailer{Key: key, UID: uid, Generation: 1}.String()}
}

func testHistory(w *world, apis apis) {
	t := w.tenant(apis.postgresql)
	orders := path(apis.postgresql, "team-a", "orders")
	t.push("Order", map[string]string{orders: manifest(orders, nano), "bindings/odd": "x"})
	t.wantAnswer(orders, contract.Applied)
	t.wantAnswer("bindings/odd", contract.Invalid)
	t.wantObserved()
	t.eventually("the export is published, beside the answers", func() error {
		_, err := t.exported(apis.postgresql)
		return err
	})
	log := w.host.run(t.id, "log", "--format=%an <%ae>|%cn <%ce>|%B", "status")
	for line := range strings.Lines(log) {
		if identity, _, ok := strings.Cut(line, "|status:"); ok && identity != "gitbridge <gitbridge@control-plane.gitbind.dev>|gitbridge <gitbridge@control-plane.gitbind.dev>" {
			w.Errorf("identity %s", identity)
		}
	}
	for _, want := range []string{"status: begin", "status: export postgresqlinstances.anynines.com", "status: Applied team-a/orders (postgresqlinstances.anynines.com)", "status: Invalid bindings/odd"} {
		if !strings.Contains(log, want) {
			w.Errorf("no %q in:\n%s", want, log)
		}
	}
	// It is said beside the answers, not before them.
	var published string
	t.eventually("the bridge has published its key", func() error {
		b := t.clusterBinding().Status.Bridge
		if b == nil || b.Encryption == nil || len(b.Encryption.SigningKeys) == 0 {
			return fmt.Errorf("it says %+v", b)
		}
		published = b.Encryption.SigningKeys[0]
		return nil
	})
	key, err := signing.Ed25519Key(published)
	w.must(err)
	signers := filepath.Join(w.TempDir(), "allowed_signers")
	w.must(os.WriteFile(signers, []byte(signing.AllowedSigner("gitbridge", key)), 0o600))
	for line := range strings.Lines(w.host.run(t.id, "-c", "gpg.ssh.allowedSignersFile="+signers, "log", "--format=%G? %GS %s", "status")) {
		if !strings.HasPrefix(line, "G gitbridge ") {
			w.Errorf("git verifies %q", line)
		}
	}
	w.host.check(w, t.id, "--strict")
	if files := w.host.run(t.id, "ls-tree", "-r", "--name-only", "status"); files != strings.Join([]string{
		"bindings/postgresqlinstances.anynines.com/claims/team-a/orders.yaml", "bindings/postgresqlinstances.anynines.com/export.yaml", "observed.yaml", "refused/bindings/odd",
	}, "\n") {
		w.Errorf("files on status:\n%s", files)
	}
}

func testDeleteWaits(w *world, apis apis) {
	t := w.tenant(apis.postgresql)
	orders := path(apis.postgresql, "team-a", "orders")
	t.push("Order", map[string]string{orders: manifest(orders, nano)}, object(orders, "u1"))
	t.wantAnswer(orders, contract.Applied)
	t.finalizer(orders, true)
	t.push("Cancel", map[string]string{orders: ""})
	s := t.wantAnswer(orders, contract.Deleting)
	if s.Answers.Blob != "" || s.UID != "u1" {
		w.Errorf("answer %+v", s)
	}
	t.wantObserved()
	// The provider says how far it is.
	t.setStatus(orders, map[string]any{"managed": map[string]any{"clusterStatus": "Stopping"}})
	t.eventually("status goes on", func() error {
		got, _, _ := unstructured.NestedString(t.answer(orders).Status, "managed", "clusterStatus")
		return is(got, "Stopping")
	})
	if u := t.object(orders); u.GetDeletionTimestamp() == nil {
		w.Error("it is not being deleted")
	}
	t.finalizer(orders, false)
	t.wantAnswer(orders, contract.Gone)
}

// finalizer plays the provider, which keeps an object as long as there is
// something behind it.
func (t *tenant) finalizer(path string, on bool) {
	t.Helper()
	t.eventually("finalizer", func() error {
		u := t.object(path)
		var list []string
		for _, f := range u.GetFinalizers() {
			if f != "example.org/provider" {
				list = append(list, f)
			}
		}
		if on {
			list = append(list, "example.org/provider")
		}
		u.SetFinalizers(list)
		return t.admin.Update(t.Context(), u)
	})
}

func testBackWhileGoing(w *world, apis apis) {
	t := w.tenant(apis.postgresql)
	orders := path(apis.postgresql, "team-a", "orders")
	t.push("Order", map[string]string{orders: manifest(orders, nano)}, object(orders, "u1"))
	t.wantAnswer(orders, contract.Applied)
	first := t.object(orders).GetUID()
	t.finalizer(orders, true)
	t.push("Cancel", map[string]string{orders: ""})
	t.wantAnswer(orders, contract.Deleting)
	t.push("Changed my mind", map[string]string{orders: manifest(orders, nano)})
	t.wantAnswer(orders, contract.Deleting, "cannot be undone")
	t.finalizer(orders, false)
	if s := t.wantAnswer(orders, contract.Lost, "--recreate-empty "+orders); s.Reason != contract.Reverted {
		w.Errorf("%+v", s)
	}
	if t.object(orders) != nil {
		w.Error("an empty one was ordered")
	}
	t.approve(v1alpha1.RecreateEmptyAnnotation, orders)
	t.wantAnswer(orders, contract.Applied)
	if t.object(orders).GetUID() == first {
		w.Error("it is the old object")
	}
}

func testComposite(w *world, apis apis) {
	t := w.tenant(apis.caches)
	name := strings.Repeat("long", 20)
	big := path(apis.caches, "team-a", name)
	t.push("Order", map[string]string{big: manifest(big, "  size: small\n  crossplane:\n    compositionRef: {name: chosen}")})
	s := t.wantAnswer(big, contract.Applied, "left out", "spec.crossplane")
	u := t.wantObject(big, "spec.size", "small")
	if _, ok, _ := unstructured.NestedMap(u.Object, "spec", "crossplane"); ok {
		w.Error("machinery passed")
	}
	if got := u.GetLabels()["gitbind.dev/name"]; len(got) > 63 || u.GetAnnotations()["gitbind.dev/name"] != name {
		w.Errorf("label %q, annotation %q", got, u.GetAnnotations()["gitbind.dev/name"])
	}
	if s.Object != v1alpha1.TenantNamespace(t.id)+"-team-a/"+name {
		w.Errorf("object %s", s.Object)
	}
	t.setStatus(big, map[string]any{"ready": true})
	t.eventually("status travels", func() error {
		if t.answer(big).Status["ready"] != true {
			return errors.New("not yet")
		}
		return nil
	})
	t.push("Cancel", map[string]string{big: ""})
	t.wantAnswer(big, contract.Gone)
}

func testPlain(w *world, apis apis) {
	t := w.tenant(apis.widgets)
	one := path(apis.widgets, "team-a", "one")
	t.push("Order", map[string]string{one: manifest(one, "  resourceRef: is a field like any other")})
	t.wantAnswer(one, contract.Applied)
	u := t.wantObject(one, "spec.resourceRef", "is a field like any other")
	if diff := cmp.Diff(map[string]any{"resourceRef": "is a field like any other", "color": "red"}, u.Object["spec"]); diff != "" {
		w.Errorf("spec (-want +got): %s", diff)
	}
	t.push("Cancel", map[string]string{one: ""})
	t.wantAnswer(one, contract.Gone)
}
