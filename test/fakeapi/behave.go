package fakeapi

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
)

// Server is what a client can do.
type Server interface {
	Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error
	Create(context.Context, client.Object, ...client.CreateOption) error
	Update(context.Context, client.Object, ...client.UpdateOption) error
	Delete(context.Context, client.Object, ...client.DeleteOption) error
	Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error
}

// Patcher is a Server whose status and patches are imitated, too.
type Patcher interface {
	Server
	Patch(context.Context, client.Object, client.Patch, ...client.PatchOption) error
	Status() client.SubResourceWriter
}

// behaviour is what a server does in a case: words, which are the same of each server.
type behaviour struct {
	name string
	want []string
	do   func(*world)
}

// world is a server in which one case has an object of its own.
type world struct {
	*testing.T
	Server
	name string
	got  []string
}

// Behave has a server show all that is imitated, but for the cases that it lacks. Its scheme
// has the core kinds and ours, and so has it their definitions.
func Behave(t *testing.T, s Server, lacks ...string) {
	t.Helper()
	all := behaviours
	if _, ok := s.(Patcher); ok {
		all = slices.Concat(all, patches)
	}
	for i, b := range all {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			w := &world{T: t, Server: s, name: fmt.Sprint("case", i)}
			b.do(w)
			diff := cmp.Diff(b.want, w.got)
			if diff != "" && !slices.Contains(lacks, b.name) {
				t.Errorf("(-want +got) %s", diff)
			}
			if diff == "" && slices.Contains(lacks, b.name) {
				t.Error("it is as an API server does, and needs no mending any more")
			}
		})
	}
}

// says notes how something ended.
func (w *world) says(err error) {
	if err == nil {
		w.got = append(w.got, "done")
		return
	}
	words := string(apierrors.ReasonForError(err))
	if words == "" {
		words = err.Error()
	}
	if apierrors.IsInvalid(err) {
		if cause, ok := apierrors.StatusCause(err, metav1.CauseTypeFieldValueInvalid); ok {
			words += " " + cause.Field
		}
	}
	w.got = append(w.got, words)
}

func (w *world) notes(yes bool, what string) {
	if !yes {
		what = "not " + what
	}
	w.got = append(w.got, what)
}

// must is what a case begins with.
func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) object(apiVersion, kind string, content map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: content}
	u.SetAPIVersion(apiVersion)
	u.SetKind(kind)
	u.SetNamespace(metav1.NamespaceDefault)
	u.SetName(w.name)
	return u
}

func (w *world) secret() *unstructured.Unstructured {
	return w.object("v1", "Secret", map[string]any{"type": "Opaque", "data": map[string]any{"a": "YQ=="}})
}

// dryRun is a custom resource.
func (w *world) dryRun() *unstructured.Unstructured {
	return w.object(v1alpha1.GroupVersion.String(), "DryRun", map[string]any{"spec": map[string]any{
		"branch": "changes/a", "change": map[string]any{"head": "h", "effect": "e"}, "askedAt": "2026-11-24T12:00:00Z", "claims": []any{},
	}})
}

func setBranch(u *unstructured.Unstructured, to string) *unstructured.Unstructured {
	_ = unstructured.SetNestedField(u.Object, to, "spec", "branch")
	return u
}

func (w *world) made(u *unstructured.Unstructured) *unstructured.Unstructured {
	w.Helper()
	w.must(w.Create(w.Context(), u))
	return u
}

// is the object now.
func (w *world) is(u *unstructured.Unstructured) *unstructured.Unstructured {
	w.Helper()
	out := &unstructured.Unstructured{}
	out.SetGroupVersionKind(u.GroupVersionKind())
	w.must(w.Get(w.Context(), client.ObjectKeyFromObject(u), out))
	return out
}

// missing notes whether the object is gone.
func (w *world) missing(u *unstructured.Unstructured) {
	w.says(w.Get(w.Context(), client.ObjectKeyFromObject(u), u.DeepCopy()))
}

// apply applies as the owner of all fields.
func (w *world) apply(u *unstructured.Unstructured, version string, uid types.UID) {
	u = u.DeepCopy()
	u.SetResourceVersion(version)
	u.SetUID(uid)
	w.says(w.Apply(w.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("tests"), client.ForceOwnership))
}

// otherVersion is one that no object has.
const otherVersion = "987654321"

var behaviours = []behaviour{
	{"an object is made", []string{"a UID", "a version", "a time", "generation 1"}, func(w *world) {
		u := w.dryRun()
		u.SetUID("mine")
		u.SetGeneration(7)
		w.made(u)
		w.notes(u.GetUID() != "" && u.GetUID() != "mine" && w.is(u).GetUID() == u.GetUID(), "a UID")
		w.notes(u.GetResourceVersion() != "" && w.is(u).GetResourceVersion() == u.GetResourceVersion(), "a version")
		w.notes(time.Since(u.GetCreationTimestamp().Time).Abs() < time.Hour, "a time")
		w.notes(w.is(u).GetGeneration() == 1, "generation 1")
	}},
	{"an object is made twice", []string{"AlreadyExists", "left as it was"}, func(w *world) {
		w.made(w.secret())
		u := w.secret()
		w.says(w.Create(w.Context(), u))
		w.notes(u.GetUID() == "" && u.GetResourceVersion() == "" && cmp.Equal(u.Object["data"], w.secret().Object["data"]), "left as it was")
	}},
	{"an object that is not there", []string{"NotFound", "NotFound", "NotFound"}, func(w *world) {
		w.missing(w.secret())
		w.says(w.Update(w.Context(), w.secret()))
		w.says(w.Delete(w.Context(), w.secret()))
	}},
	{"an update counts the generation", []string{"labels do not", "the spec does", "done", "the version is another", "the UID is the same"}, func(w *world) {
		u := w.made(w.dryRun())
		first := u.DeepCopy()
		u.SetLabels(map[string]string{"a": "b"})
		w.must(w.Update(w.Context(), u))
		w.notes(u.GetGeneration() == 1, "labels do not")
		w.must(w.Update(w.Context(), setBranch(u, "changes/b")))
		w.notes(u.GetGeneration() == 2 && w.is(u).GetGeneration() == 2, "the spec does")
		u.SetGeneration(9)
		w.says(w.Update(w.Context(), u))
		w.notes(u.GetGeneration() == 2 && u.GetResourceVersion() != first.GetResourceVersion(), "the version is another")
		w.notes(u.GetUID() == first.GetUID(), "the UID is the same")
	}},
	{"an update that changes nothing leaves the version", []string{"the same"}, func(w *world) {
		u := w.made(w.secret())
		version := u.GetResourceVersion()
		w.must(w.Update(w.Context(), u))
		w.notes(u.GetResourceVersion() == version && w.is(u).GetResourceVersion() == version, "the same")
	}},
	{"an update of what was read before", []string{"Conflict", "kept"}, func(w *world) {
		u := w.made(w.dryRun())
		old := setBranch(u.DeepCopy(), "changes/old")
		w.must(w.Update(w.Context(), setBranch(u, "changes/b")))
		w.says(w.Update(w.Context(), old))
		branch, _, _ := unstructured.NestedString(w.is(u).Object, "spec", "branch")
		w.notes(branch == "changes/b", "kept")
	}},
	{"an update of another object of the name", []string{"Conflict"}, func(w *world) {
		u := w.made(w.dryRun())
		u.SetUID("another")
		w.says(w.Update(w.Context(), setBranch(u, "changes/b")))
	}},
	{"what is immutable", []string{"Invalid type", "done", "Invalid"}, func(w *world) {
		u := w.made(w.secret())
		other := u.DeepCopy()
		other.Object["type"] = "example.org/other"
		w.says(w.Update(w.Context(), other))
		u.Object["immutable"] = true
		w.says(w.Update(w.Context(), u))
		u.Object["data"] = map[string]any{"a": "Yg=="}
		w.says(w.Update(w.Context(), u))
	}},
	{"a delete of just what was read", []string{"Conflict", "Conflict", "done", "done", "NotFound"}, func(w *world) {
		u := w.made(w.secret())
		with := func(uid types.UID, version string) error {
			return w.Delete(w.Context(), u.DeepCopy(), client.Preconditions{UID: &uid, ResourceVersion: &version})
		}
		w.says(with("another", u.GetResourceVersion()))
		w.says(with(u.GetUID(), otherVersion))
		w.missing(u)
		w.says(with(u.GetUID(), u.GetResourceVersion()))
		w.missing(u)
	}},
	{"a delete waits for finalizers", []string{"done", "is being deleted", "done", "done", "NotFound"}, func(w *world) {
		u := w.dryRun()
		u.SetFinalizers([]string{"example.org/wait"})
		w.made(u)
		w.says(w.Delete(w.Context(), u.DeepCopy()))
		u = w.is(u)
		w.notes(u.GetDeletionTimestamp() != nil, "is being deleted")
		w.says(w.Delete(w.Context(), u.DeepCopy()))
		u.SetFinalizers(nil)
		w.says(w.Update(w.Context(), u))
		w.missing(u)
	}},
	{onFound, []string{"done", "Invalid metadata.resourceVersion", "Conflict", "Conflict", "Invalid metadata.uid", "done", "generation 2", "done", "the same"}, func(w *world) {
		u := w.dryRun()
		w.apply(u, "0", "")
		first := w.is(u)
		w.apply(setBranch(u, "changes/b"), "0", "")
		w.apply(u, otherVersion, "")
		w.apply(u, otherVersion, "another")
		w.apply(u, first.GetResourceVersion(), "another")
		w.apply(u, first.GetResourceVersion(), first.GetUID())
		second := w.is(u)
		w.notes(second.GetGeneration() == 2 && second.GetUID() == first.GetUID(), "generation 2")
		w.apply(u, second.GetResourceVersion(), second.GetUID())
		w.notes(w.is(u).GetResourceVersion() == second.GetResourceVersion(), "the same")
	}},
	{"applied on what is gone", []string{"Conflict", "done"}, func(w *world) {
		w.apply(w.dryRun(), "7", "gone")
		w.apply(w.dryRun(), "7", "")
	}},
}

func (w *world) clusterBinding() *v1alpha1.ClusterBinding {
	w.Helper()
	b := &v1alpha1.ClusterBinding{ObjectMeta: metav1.ObjectMeta{Name: w.name}, Spec: v1alpha1.ClusterBindingSpec{
		DisplayName: "prod", Owner: v1alpha1.Owner{Issuer: "https://i.example.org", Subject: "s", Username: "alice"},
	}}
	w.must(w.Create(w.Context(), b))
	return b
}

func (w *world) applyStatus(owner, version string, uid types.UID, status map[string]any) {
	u := w.object(v1alpha1.GroupVersion.String(), "ClusterBinding", map[string]any{"status": status})
	u.SetNamespace("")
	u.SetResourceVersion(version)
	u.SetUID(uid)
	w.says(w.Server.(Patcher).Status().Apply(w.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(owner), client.ForceOwnership))
}

// Cases that the fake client of controller-runtime does not pass, mended or not: no test may rely
// on them there.
const (
	conditions = "conditions of two who apply them"
	onFound    = "applied on just what was found"
)

var patches = []behaviour{
	{"a status is updated alone", []string{"done", "the status", "not the spec", "generation 1", "done", "the status", "the spec", "Conflict"}, func(w *world) {
		status := w.Server.(Patcher).Status()
		u := w.made(w.dryRun())
		old := u.DeepCopy()
		says := func() {
			is := w.is(u)
			head, _, _ := unstructured.NestedString(is.Object, "status", "change", "head")
			branch, _, _ := unstructured.NestedString(is.Object, "spec", "branch")
			w.notes(head == "tried", "the status")
			w.notes(branch == "changes/b", "the spec")
		}
		_ = unstructured.SetNestedStringMap(u.Object, map[string]string{"head": "tried", "effect": ""}, "status", "change")
		w.says(status.Update(w.Context(), setBranch(u, "changes/b")))
		says()
		w.notes(w.is(u).GetGeneration() == 1, "generation 1")
		_ = unstructured.SetNestedStringMap(u.Object, map[string]string{"head": "other", "effect": ""}, "status", "change")
		w.says(w.Update(w.Context(), setBranch(u, "changes/b")))
		says()
		w.says(status.Update(w.Context(), old))
	}},
	{"a status is not made with its object", []string{"no status"}, func(w *world) {
		u := w.dryRun()
		_ = unstructured.SetNestedField(u.Object, int64(3), "status", "observedGeneration")
		w.made(u)
		generation, _, _ := unstructured.NestedInt64(w.is(u).Object, "status", "observedGeneration")
		w.notes(generation == 0, "no status")
	}},
	{"a part of a status is applied", []string{"done", "done", "backend", "bridge", "done", "not backend", "bridge", "Conflict", "done"}, func(w *world) {
		b := w.clusterBinding()
		says := func() {
			w.must(w.Get(w.Context(), client.ObjectKeyFromObject(b), b))
			w.notes(b.Status.TenantNamespace == "t", "backend")
			w.notes(b.Status.Bridge != nil && b.Status.Bridge.Epoch == "e", "bridge")
		}
		w.applyStatus("backend", b.ResourceVersion, "", map[string]any{"tenantNamespace": "t"})
		w.applyStatus("bridge", "", "", map[string]any{"bridge": map[string]any{"epoch": "e"}})
		says()
		w.applyStatus("backend", "", "", map[string]any{})
		says()
		w.applyStatus("backend", otherVersion, "", map[string]any{"tenantNamespace": "t"})
		w.applyStatus("backend", b.ResourceVersion, "another", map[string]any{"tenantNamespace": "t"})
	}},
	{conditions, []string{"done", "done", "Ready", "Synced", "done", "not Ready", "Synced"}, func(w *world) {
		b := w.clusterBinding()
		condition := func(kind string) map[string]any {
			return map[string]any{"conditions": []any{map[string]any{"type": kind, "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-11-24T12:00:00Z"}}}
		}
		says := func() {
			w.must(w.Get(w.Context(), client.ObjectKeyFromObject(b), b))
			for _, kind := range []string{"Ready", "Synced"} {
				w.notes(meta.IsStatusConditionTrue(b.Status.Conditions, kind), kind)
			}
		}
		w.applyStatus("backend", "", "", condition("Ready"))
		w.applyStatus("bridge", "", "", condition("Synced"))
		says()
		w.applyStatus("backend", "", "", map[string]any{})
		says()
	}},
	{"a status of what is not there is applied", []string{"NotFound", "NotFound"}, func(w *world) {
		u := w.dryRun()
		u.Object["status"] = map[string]any{"observedGeneration": int64(1)}
		delete(u.Object, "spec")
		w.says(w.Server.(Patcher).Status().Apply(w.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("tests"), client.ForceOwnership))
		w.missing(u)
	}},
	{"an apply leaves what others wrote", []string{"done", "both", "done", "theirs"}, func(w *world) {
		w.must(w.Create(w.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: w.name}, Data: map[string]string{"theirs": "1"}}))
		ours := func(data map[string]any) *unstructured.Unstructured { return w.object("v1", "ConfigMap", data) }
		says := func(what string, want map[string]string) {
			got, _, _ := unstructured.NestedStringMap(w.is(ours(map[string]any{})).Object, "data")
			w.notes(cmp.Equal(want, got), what)
		}
		w.apply(ours(map[string]any{"data": map[string]any{"ours": "2"}}), "", "")
		says("both", map[string]string{"theirs": "1", "ours": "2"})
		w.apply(ours(map[string]any{}), "", "")
		says("theirs", map[string]string{"theirs": "1"})
	}},
	{"a merge patch", []string{"NotFound", "done", "merged", "Conflict", "Invalid metadata.uid", "Invalid type", "done", "the same"}, func(w *world) {
		merge := func(from, to *unstructured.Unstructured) error {
			return w.Server.(Patcher).Patch(w.Context(), to, client.MergeFromWithOptions(from, client.MergeFromWithOptimisticLock{}))
		}
		change := func(from *unstructured.Unstructured, key string) *unstructured.Unstructured {
			to := from.DeepCopy()
			to.Object["data"] = map[string]any{key: "Yg=="}
			return to
		}
		none := w.secret()
		none.SetResourceVersion(otherVersion)
		w.says(merge(none, change(none, "b")))
		u := w.made(w.secret())
		to := change(u, "b")
		w.says(merge(u, to))
		now := w.is(u)
		w.notes(cmp.Equal(map[string]any{"b": "Yg=="}, now.Object["data"]) && now.GetResourceVersion() == to.GetResourceVersion(), "merged")
		w.says(merge(u, change(u, "c")))
		other := now.DeepCopy()
		other.SetUID("another")
		w.says(w.Server.(Patcher).Patch(w.Context(), change(other, "d"), client.MergeFrom(now)))
		typed := now.DeepCopy()
		typed.Object["type"] = "example.org/other"
		w.says(merge(now, typed))
		w.says(merge(now, now.DeepCopy()))
		w.notes(w.is(u).GetResourceVersion() == now.GetResourceVersion(), "the same")
	}},
	{"a merge patch that is a dry run", []string{"NotFound", "done", "what is there", "Conflict", "done", "what would be", "nothing is written"}, func(w *world) {
		try := func(u *unstructured.Unstructured, data string) error {
			return w.Server.(Patcher).Patch(w.Context(), u, client.RawPatch(types.MergePatchType, []byte(data)), client.DryRunAll)
		}
		w.says(try(w.secret(), "{}"))
		u := w.made(w.secret())
		bare := w.object("v1", "Secret", map[string]any{})
		w.says(try(bare, "{}"))
		w.notes(cmp.Equal(u.Object["data"], bare.Object["data"]) && bare.GetUID() == u.GetUID() && bare.GetResourceVersion() == u.GetResourceVersion(), "what is there")
		w.says(try(bare, `{"metadata":{"resourceVersion":"`+otherVersion+`"},"data":{"b":"Yg=="}}`))
		w.says(try(bare, `{"data":{"b":"Yg=="}}`))
		w.notes(cmp.Equal(map[string]any{"a": "YQ==", "b": "Yg=="}, bare.Object["data"]), "what would be")
		w.notes(cmp.Equal(u.Object["data"], w.is(u).Object["data"]), "nothing is written")
	}},
}
