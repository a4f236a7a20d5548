package app_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/test/githost"
)

func testLost(w *world, apis apis) {
	t := w.tenant(apis.postgresql)
	orders := path(apis.postgresql, "team-a", "orders")
	t.push("Order", map[string]string{orders: manifest(orders, nano)}, object(orders, "u1"))
	t.wantAnswer(orders, contract.Applied)
	w.must(w.admin.Delete(w.Context(), t.object(orders)))
	t.wantAnswer(orders, contract.Lost, "missing on the control plane")
	t.push("Change", map[string]string{orders: manifest(orders, small)})
	t.wantObserved()
	if s := t.answer(orders); s.Result != contract.Lost || t.object(orders) != nil {
		w.Errorf("answer %s, object %v: an empty one in the place of a full one", s.Result, t.object(orders))
	}
	w.bridge.stop()
	w.startBridge()
	t.wantSynced("Following")
	t.push("Change", map[string]string{orders: manifest(orders, nano)})
	t.wantObserved()
	if s := t.answer(orders); s.Result != contract.Lost || t.object(orders) != nil {
		w.Errorf("answer %s after a restart, object %v", s.Result, t.object(orders))
	}
	t.push("Cancel", map[string]string{orders: ""})
	if s := t.wantAnswer(orders, contract.Gone); s.UID != "u1" {
		w.Errorf("tombstone %+v", s)
	}
	t.push("Order again", map[string]string{orders: manifest(orders, nano)})
	t.wantAnswer(orders, contract.Applied)
}

func testRewritten(w *world, apis apis) {
	t := w.tenant(apis.postgresql)
	orders, later := path(apis.postgresql, "team-a", "orders"), path(apis.postgresql, "team-a", "later")
	begin := w.host.head(t.id, "main")
	t.push("Order", map[string]string{orders: manifest(orders, nano)})
	good := t.push("Order", map[string]string{later: manifest(later, nano)})
	t.wantAnswer(orders, contract.Applied)
	t.wantAnswer(later, contract.Applied)
	force := func(to string) {
		w.host.run(t.id, "update-ref", "refs/heads/main", to)
		w.host.tell(t.id)
	}
	force(begin)
	t.wantSynced("MainRewritten")
	t.setStatus(orders, map[string]any{"managed": map[string]any{"clusterStatus": "Running"}})
	t.eventually("status goes on", func() error {
		got, _, _ := unstructured.NestedString(t.answer(orders).Status, "managed", "clusterStatus")
		return is(got, "Running")
	})
	if t.object(orders) == nil || t.object(later) == nil {
		w.Fatal("a service was deleted")
	}
	force(good)
	t.wantSynced("Following")

	// Also after a restart, and when the repository is another one altogether.
	w.bridge.stop()
	w.host.run(t.id, "update-ref", "refs/heads/main", w.host.run(t.id, "commit-tree", "-m", "Another", good+"^{tree}"))
	w.startBridge()
	t.wantSynced("MainRewritten")
	w.host.run(t.id, "update-ref", "refs/heads/main", begin)
	w.host.tell(t.id)
	w.annotate(t.clusterBinding(), "gitbind.dev/approve-main", begin)
	t.wantSynced("RemovalsHeld")
	t.wantAnswer(orders, contract.Held, "nothing was deleted")
	t.wantAnswer(later, contract.Held, "nothing was deleted")
	if t.object(orders) == nil || t.object(later) == nil {
		w.Fatal("a service was deleted")
	}
	t.push("Put back", map[string]string{orders: manifest(orders, nano)})
	t.wantAnswer(orders, contract.Applied)
	t.push("Cancel", map[string]string{orders: ""})
	t.wantAnswer(orders, contract.Gone)
	if t.object(later) == nil {
		w.Fatal("a service was deleted")
	}
}

func (w *world) annotate(o client.Object, key, value string) {
	w.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value)
	w.must(w.admin.Patch(w.Context(), o, client.RawPatch(types.MergePatchType, []byte(patch))))
}

func testCredential(w *world, apis apis) {
	t := w.tenant(apis.postgresql)
	t.wantSynced("Following")
	w.host.setPassword(t.id, "rotated")
	w.host.Server.CloseClientConnections() // events end, and are asked for again
	orders := path(apis.postgresql, "team-a", "orders")
	repository := w.host.open(t.id, "rotated")
	t.main, t.status = repository.Branch("main"), repository.Branch("status")
	t.push("Order", map[string]string{orders: manifest(orders, nano)})
	t.eventually("the condition says it", func() error {
		for _, c := range t.clusterBinding().Status.Conditions {
			if c.Reason == "CredentialRefused" || c.Reason == "Polling" {
				return nil
			}
		}
		return fmt.Errorf("%+v", t.clusterBinding().Status.Conditions)
	})
	var secret corev1.Secret
	w.must(w.admin.Get(w.Context(), client.ObjectKey{Namespace: v1alpha1.TenantNamespace(t.id), Name: v1alpha1.BridgeSecret}, &secret))
	secret.Data["password"] = []byte("rotated")
	w.must(w.admin.Update(w.Context(), &secret))
	t.wantAnswer(orders, contract.Applied)
	t.wantSynced("Following")
}

func testSSH(w *world, apis apis) {
	t := w.tenant(apis.postgresql)
	t.wantSynced("Following")
	dir := w.host.dir(t.id)
	host, privateKey := githost.NewSSH(t, filepath.Dir(dir))
	t.backendSays("ClusterBinding", "", t.id, map[string]any{
		"repository":      map[string]any{"url": "ssh://git@" + host.Address + "/" + filepath.Base(dir)},
		"tenantNamespace": v1alpha1.TenantNamespace(t.id), "conditions": yes(v1alpha1.ConditionReady),
	})
	t.wantSynced("SecretMissing")
	give := func(privateKey, knownHosts []byte) {
		var secret corev1.Secret
		w.must(w.admin.Get(w.Context(), client.ObjectKey{Namespace: v1alpha1.TenantNamespace(t.id), Name: v1alpha1.BridgeSecret}, &secret))
		secret.Data[v1alpha1.SSHPrivateKeyKey], secret.Data[v1alpha1.KnownHostsKey] = privateKey, knownHosts
		w.must(w.admin.Update(w.Context(), &secret))
	}
	give(privateKey, []byte("# none"))
	t.wantSynced("HostKeyRefused")
	other, _ := githost.NewSSHKey(t)
	give(other, host.KnownHosts())
	t.wantSynced("CredentialRefused")
	give(privateKey, host.KnownHosts())
	orders := path(apis.postgresql, "team-a", "orders")
	t.push("Order", map[string]string{orders: manifest(orders, nano)})
	t.wantAnswer(orders, contract.Applied)
	t.wantSynced("Following")
	if host.Connections.Load() == 0 {
		w.Error("it was not reached over SSH")
	}
}

func testHostDown(w *world, apis apis) {
	t := w.tenant(apis.postgresql)
	orders := path(apis.postgresql, "team-a", "orders")
	t.push("Order", map[string]string{orders: manifest(orders, nano)})
	t.wantAnswer(orders, contract.Applied)
	w.host.setDown(true)
	t.setStatus(orders, map[string]any{"managed": map[string]any{"clusterStatus": "Running"}})
	t.wantSynced("RepositoryUnreachable")
	t.eventually("readiness says it", func() error {
		return is(fmt.Sprint(w.bridge.ready("/repositories"), w.bridge.ready("/caches")), "500 200")
	})
	w.host.setDown(false)
	t.eventually("status arrives", func() error {
		got, _, _ := unstructured.NestedString(t.answer(orders).Status, "managed", "clusterStatus")
		return is(got, "Running")
	})
	t.wantSynced("Following")
	t.push("Grow", map[string]string{orders: manifest(orders, small)})
	t.wantObject(orders, "spec.plan", "postgresql-single-small")
	t.eventually("readiness says it", func() error { return is(fmt.Sprint(w.bridge.ready("")), "200") })
}

func testClusterBindingDeleted(w *world, apis apis) {
	t := w.tenant(apis.postgresql)
	orders := path(apis.postgresql, "team-a", "orders")
	t.push("Order", map[string]string{orders: manifest(orders, nano)})
	t.wantAnswer(orders, contract.Applied)
	w.must(w.admin.Delete(w.Context(), t.clusterBinding()))
	t.eventually("it is gone", func() error {
		var list v1alpha1.ClusterBindingList
		if err := w.admin.List(w.Context(), &list); err != nil {
			return err
		}
		for _, b := range list.Items {
			if b.Name == t.id {
				return fmt.Errorf("still there")
			}
		}
		return nil
	})
	other := w.tenant(apis.postgresql) // by now the bridge has seen it
	other.wantSynced("Following")
	head := w.host.head(t.id, "status")
	t.push("Cancel", map[string]string{orders: ""})
	p := path(apis.postgresql, "team-a", "probe")
	other.push("Order", map[string]string{p: manifest(p, nano)})
	other.wantAnswer(p, contract.Applied)
	if t.object(orders) == nil {
		w.Error("a service was deleted")
	}
	if got := w.host.head(t.id, "status"); got != head {
		w.Error("status is still written")
	}
}

// versions are those of everything that the bridge could write.
func (w *world) versions() map[string]string {
	out := map[string]string{}
	for _, gvk := range []string{
		"gitbind.dev/v1alpha1 ClusterBinding", "gitbind.dev/v1alpha1 APIServiceExport", "v1 Namespace",
		"rbac.authorization.k8s.io/v1 RoleBinding", "anynines.com/v1 PostgresqlInstance", "example.org/v1 Cache",
	} {
		maps.Copy(out, w.names(gvk))
	}
	return out
}

func testRestart(w *world, apis apis) {
	t := w.tenant(apis.postgresql)
	files := map[string]string{"bindings/stray": "x"}
	for i := range 20 {
		p := path(apis.postgresql, "team-a", fmt.Sprintf("db-%d", i))
		files[p] = manifest(p, nano)
	}
	refused, gone, machinery := path(apis.postgresql, "team-b", "refused"), path(apis.postgresql, "team-b", "gone"), path(apis.postgresql, "team-b", "machinery")
	files[refused] = manifest(refused, "  service: a9s-postgresql13\n  plan: huge")
	files[gone] = manifest(gone, nano)
	files[machinery] = manifest(machinery, nano+"\n  compositeDeletePolicy: Background")
	t.push("Order", files)
	for p := range files {
		if p == refused || p == "bindings/stray" {
			t.wantAnswer(p, contract.Invalid)
			continue
		}
		t.wantAnswer(p, contract.Applied)
	}
	t.push("Cancel", map[string]string{gone: ""})
	t.wantAnswer(gone, contract.Gone)
	t.setStatus(machinery, map[string]any{"managed": map[string]any{"clusterStatus": "Running"}})
	t.eventually("status", func() error {
		if t.answer(machinery).Status == nil {
			return fmt.Errorf("not yet")
		}
		return nil
	})
	t.eventually("its API is published, and that is said", func() error {
		_, err := t.exported(apis.postgresql)
		if err == nil && !meta.IsStatusConditionTrue(t.export(apis.postgresql).Status.Conditions, v1alpha1.ConditionPublished) {
			err = errors.New("it is not said")
		}
		return err
	})
	t.wantObserved()
	t.wantSynced("Following")
	w.bridge.stop() // what is lazily written is, now

	before, head := w.versions(), w.host.head(t.id, "status")
	w.startBridge()
	// The last thing that a start does is to answer something new.
	p := path(apis.postgresql, "team-a", "db-new")
	began := time.Now()
	added := t.push("Order", map[string]string{p: manifest(p, nano)})
	t.wantAnswer(p, contract.Applied)
	w.Logf("a claim pushed during a start was answered after %s", time.Since(began).Round(time.Millisecond))
	t.wantObserved()
	after := w.versions()
	maps.DeleteFunc(after, func(name, _ string) bool { return strings.HasSuffix(name, t.id+"-team-a/db-new") })
	if diff := cmp.Diff(before, after); diff != "" {
		w.Errorf("objects (-before +after): %s", diff)
	}
	var want []string
	log := strings.Split(w.host.run(t.id, "log", "--format=%s", head+"..status"), "\n")
	for _, subject := range log {
		if !strings.Contains(subject, "db-new") && subject != "status: main is answered" {
			want = append(want, subject)
		}
	}
	if len(want) > 0 {
		w.Errorf("commits: %q, beside that of %s", want, added)
	}
}

func testCameAndWent(w *world, apis apis) {
	t := w.tenant(apis.postgresql)
	t.wantSynced("Following")
	w.bridge.stop()
	orders := path(apis.postgresql, "team-a", "orders")
	t.push("Order", map[string]string{orders: manifest(orders, nano)}, object(orders, "u1"))
	t.push("Cancel", map[string]string{orders: ""}, object(orders, "u1"))
	w.startBridge()
	if s := t.wantAnswer(orders, contract.Gone); s.UID != "u1" {
		w.Errorf("tombstone %+v", s)
	}
	t.wantObserved()
	if t.object(orders) != nil {
		w.Error("it was made")
	}
}

func testRemovedWhileAway(w *world, apis apis) {
	t := w.tenant(apis.postgresql)
	orders, other := path(apis.postgresql, "team-a", "orders"), path(apis.postgresql, "team-a", "other")
	t.push("Order", map[string]string{orders: manifest(orders, nano), other: manifest(other, nano)}, object(orders, "u1"))
	t.wantAnswer(orders, contract.Applied)
	t.wantAnswer(other, contract.Applied)
	w.bridge.stop()
	t.push("Cancel", map[string]string{orders: ""})
	w.startBridge()
	if s := t.wantAnswer(orders, contract.Gone); s.UID != "u1" {
		w.Errorf("tombstone %+v", s)
	}
	if t.object(other) == nil || t.object(orders) != nil {
		w.Error("want orders gone, and other there")
	}
}

// A bridge that ends between the API server's answer and its own leaves an object that
// status does not name, and whose file may be gone before another bridge looks.
func testRemovedBeforeItsAnswer(w *world, apis apis) {
	t := w.tenant(apis.postgresql)
	orders, other := path(apis.postgresql, "team-a", "orders"), path(apis.postgresql, "team-a", "other")
	t.push("Order", map[string]string{other: manifest(other, nano)})
	t.wantAnswer(other, contract.Applied)
	w.bridge.stop()
	ordered := t.push("Order", map[string]string{orders: manifest(orders, nano)})
	u := t.object(other).DeepCopy()
	u.SetName("orders")
	u.SetUID("")
	u.SetResourceVersion("")
	u.SetManagedFields(nil)
	u.SetLabels(map[string]string{"gitbind.dev/cluster": t.id, "gitbind.dev/namespace": "team-a", "gitbind.dev/name": "orders"})
	annotations := u.GetAnnotations()
	annotations["gitbind.dev/commit"] = ordered
	u.SetAnnotations(annotations)
	w.must(w.admin.Create(w.Context(), u))
	t.push("Cancel", map[string]string{orders: ""})
	// What is on the control plane is known before main is.
	w.host.setBefore(func(r *http.Request) {
		select {
		case <-time.After(time.Second):
		case <-r.Context().Done():
		}
	})
	defer w.host.setBefore(nil)
	w.startBridge()
	t.eventually("the object is gone", func() error {
		if t.object(orders) != nil {
			return errors.New("it is there")
		}
		return nil
	})
	t.wantAnswer(orders, contract.Gone)
	if t.object(other) == nil {
		w.Error("another object is gone")
	}
}

func testAPIServerDown(w *world, apis apis) {
	t := w.tenant(apis.postgresql)
	orders, later := path(apis.postgresql, "team-a", "orders"), path(apis.postgresql, "team-a", "later")
	t.push("Order", map[string]string{orders: manifest(orders, nano)})
	t.wantAnswer(orders, contract.Applied)
	w.must(w.control().APIServer.Stop(w.Context()))
	t.push("Order", map[string]string{later: manifest(later, nano), orders: manifest(orders, small)})
	t.wantAnswer(later, contract.Failed, "does not answer")
	w.must(w.control().APIServer.Start(w.Context()))
	t.wantAnswer(later, contract.Applied)
	t.wantObject(orders, "spec.plan", "postgresql-single-small")
	t.wantAnswer(orders, contract.Applied)
	if names := slices.Sorted(maps.Keys(w.versions())); len(names) == 0 {
		w.Error("nothing is left")
	}
}
