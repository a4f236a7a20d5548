package app_test

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
)

// TestD28_BridgeWritesNothingOnWhatIsNoMore is about one that slept while another
// took its place: what it writes then is refused, or read again.
func TestD28_BridgeWritesNothingOnWhatIsNoMore(t *testing.T) {
	w, postgresql := scenario(t)
	t.Run("an API server creates with version zero, and does nothing else with it", func(t *testing.T) { testVersionZero(w.with(t)) })
	t.Run("what another bridge remembered counts", func(t *testing.T) { testAnotherMemory(w.with(t), postgresql) })
	t.Run("a bridge that is suspended does nothing", func(t *testing.T) { testSuspended(w.with(t), postgresql) })
}

// testVersionZero holds what the bridge relies on where it makes an object.
func testVersionZero(w *world) {
	apply := func(version, uid, plan string) error {
		u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"service": "a9s-postgresql13", "plan": plan}}}
		u.SetAPIVersion("anynines.com/v1")
		u.SetKind("PostgresqlInstance")
		u.SetNamespace("default")
		u.SetName("orders")
		u.SetResourceVersion(version)
		u.SetUID(types.UID(uid))
		return w.admin.Apply(w.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("gitbind"), client.ForceOwnership)
	}
	w.must(apply("0", "", "postgresql-single-nano"))
	err := apply("0", "", "postgresql-single-small")
	cause, ok := apierrors.StatusCause(err, metav1.CauseTypeFieldValueInvalid)
	if !apierrors.IsInvalid(err) || !ok || cause.Field != "metadata.resourceVersion" {
		w.Errorf("the second one: %v", err)
	}
	if err := apply("1", "", "postgresql-single-small"); !apierrors.IsConflict(err) {
		w.Errorf("on an older version: %v", err)
	}
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("anynines.com/v1")
	u.SetKind("PostgresqlInstance")
	w.must(w.admin.Get(w.Context(), client.ObjectKey{Namespace: "default", Name: "orders"}, u))
	if got, _, _ := unstructured.NestedString(u.Object, "spec", "plan"); got != "postgresql-single-nano" {
		w.Errorf("plan %s", got)
	}
	version, uid := u.GetResourceVersion(), string(u.GetUID())
	w.must(apply(version, uid, "postgresql-single-small"))
	w.must(w.admin.Delete(w.Context(), u))
	w.eventually("it is gone", func() error {
		if err := w.admin.Get(w.Context(), client.ObjectKeyFromObject(u), u); !apierrors.IsNotFound(err) {
			return errors.New("still there")
		}
		return nil
	})
	if err := apply(version, uid, "postgresql-single-small"); !apierrors.IsConflict(err) {
		w.Errorf("on one that is gone: %v", err)
	}
}

func testAnotherMemory(w *world, postgresql v1alpha1.ExportedAPI) {
	t := w.tenant(postgresql)
	paths := t.order(6)
	b := t.clusterBinding().Status.Bridge
	u := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{
		"bridge": map[string]any{"acceptedCommit": b.AcceptedCommit, "epoch": b.Epoch, "sequence": b.Sequence + 1},
	}}}
	u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("ClusterBinding"))
	u.SetName(t.id)
	w.must(w.admin.Status().Apply(w.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("gitbind-gitbridge"), client.ForceOwnership))
	head := t.remove(paths[0])
	t.wantAnswer(paths[0], contract.Gone)
	if b := t.clusterBinding().Status.Bridge; b.AcceptedCommit != head || len(b.Removals) != 1 || b.Removals[0].Path != paths[0] {
		w.Errorf("remembered %+v", b)
	}
	t.wantAgreement()
}

func testSuspended(w *world, postgresql v1alpha1.ExportedAPI) {
	t := w.tenant(postgresql)
	paths := t.order(6)
	uids := t.uids(paths)
	suspend := func(yes string) {
		w.must(w.admin.Patch(w.Context(), t.clusterBinding(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"suspended":`+yes+`,"removals":{"most":0}}}`))))
	}
	following := func() (float64, bool) {
		return counted("gitbind_bridge_following", map[string]string{"cluster": t.id})
	}
	suspend("true")
	t.wantSynced("Suspended")
	if n, is := following(); is {
		w.Errorf("the metric says of a cluster that is not to be followed: %v", n)
	}
	before := w.host.head(t.id, "status")
	t.push("Meanwhile", map[string]string{paths[0]: manifest(paths[0], small), paths[1]: ""})
	other := w.tenant(postgresql)
	other.order(1) // another cluster goes on, and this one had the time to
	t.wantUntouched(paths, uids)
	if u := t.object(paths[0]); u.GetGeneration() != 1 || w.host.head(t.id, "status") != before {
		w.Error("something was done")
	}
	suspend("false")
	t.wantObject(paths[0], "spec.plan", "postgresql-single-small")
	t.eventually("the metric is there again", func() error {
		if _, is := following(); !is {
			return errors.New("it is not")
		}
		return nil
	})
	t.wantAnswer(paths[1], contract.Held, "more than may go at once")
	suspend("false")
	t.approve(v1alpha1.ApproveRemovalsAnnotation, w.host.head(t.id, "main"))
	t.wantAnswer(paths[1], contract.Gone)
	t.wantAgreement()
}
