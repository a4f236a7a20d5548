package status

import (
	"context"
	"os/exec"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/test/env"
	"gitbind.dev/test/fakeapi"
)

var now = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

func TestStatusIsWrittenOnlyWhenItChanges(t *testing.T) {
	t.Parallel()
	earlier := metav1.NewTime(now.Add(-time.Hour))
	present := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready", Message: "m", ObservedGeneration: 3, LastTransitionTime: earlier}
	same := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready", Message: "m"}
	reworded, turned := same, same
	reworded.Message = "other"
	turned.Status, turned.Reason = metav1.ConditionFalse, "Failed"
	for _, c := range []struct {
		name       string
		present    []metav1.Condition
		want       metav1.Condition
		generation int64
		namespace  string
		writes     bool
		since      time.Time
	}{
		{"nothing new", []metav1.Condition{present}, same, 3, "", false, earlier.Time},
		{"no condition yet", nil, same, 3, "", true, now},
		{"other words", []metav1.Condition{present}, reworded, 3, "", true, earlier.Time},
		{"another status", []metav1.Condition{present}, turned, 3, "", true, now},
		{"a newer generation", []metav1.Condition{present}, same, 4, "", true, earlier.Time},
		{"another field", []metav1.Condition{present}, same, 3, "tenant", true, earlier.Time},
	} {
		before := &v1alpha1.ClusterBinding{ObjectMeta: metav1.ObjectMeta{Name: "c", Generation: c.generation}, Status: v1alpha1.ClusterBindingStatus{Conditions: c.present}}
		var applies, updates int
		api := fakeapi.New(fakeapi.Builder().WithStatusSubresource(before).WithObjects(before), interceptor.Funcs{
			SubResourceApply: func(context.Context, client.Client, string, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
				applies++
				return nil
			},
			SubResourceUpdate: func(context.Context, client.Client, string, client.Object, ...client.SubResourceUpdateOption) error {
				updates++
				return nil
			},
		})
		want := before.DeepCopy()
		want.Status.TenantNamespace = c.namespace
		Set(want, c.want, now)
		if err := backend.Write(t.Context(), api, before, want); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if err := Replace(t.Context(), api, before, want); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if writes := map[bool]int{true: 1}[c.writes]; applies != writes || updates != writes {
			t.Errorf("%s: %d applies and %d updates, want %d each", c.name, applies, updates, writes)
		}
		if got := want.Status.Conditions[0]; !got.LastTransitionTime.Time.Equal(c.since) || got.ObservedGeneration != c.generation {
			t.Errorf("%s: %+v, want it to be so since %s", c.name, got, c.since)
		}
	}
}

// Two that write one status, each in parts of its own.
var (
	backend = Part{Owner: "backend", Fields: []string{"tenantNamespace", "lastSeen"}, Conditions: []string{"Ready", "Connected"}}
	bridge  = Part{Owner: "bridge", Fields: []string{"bridge"}, Conditions: []string{"Synced"}, Locked: true}
)

func TestWritersOfOneStatus(t *testing.T) {
	t.Parallel()
	e := env.StartForTest(t, env.Options{Clusters: []string{env.Control}, NoControllerManager: true})
	control := e.Cluster(env.Control)
	for _, args := range [][]string{{"apply", "-k", "../../kustomize/crds/control-plane"}, {"wait", "--timeout=2m", "--for=condition=Established", "crd", "--all"}} {
		if out, err := exec.CommandContext(t.Context(), e.Kubectl, append([]string{"--kubeconfig", control.Kubeconfig}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("kubectl %v: %v: %s", args, err, out)
		}
	}
	api, err := client.New(control.Config(), client.Options{Scheme: fakeapi.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	for object, test := range map[string]struct {
		name string
		run  func(*testing.T, *world)
	}{
		"read":    {"neither loses what the other says of an object that both have read", testNeitherLosesWhatTheOtherSays},
		"removed": {"what a writer does not say any more is removed and nothing else", testOnlyOnesOwnIsRemoved},
		"another": {"another object of the same name is left alone", testAnotherObjectIsLeftAlone},
		"changed": {"who remembers is told that the object was changed", testChangesAreConflicts},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := &world{T: t, api: api, name: object}
			w.create()
			test.run(t, w)
		})
	}
}

type world struct {
	*testing.T
	api  client.Client
	name string
}

func (w *world) create() {
	w.Helper()
	w.must(w.api.Create(w.Context(), &v1alpha1.ClusterBinding{
		ObjectMeta: metav1.ObjectMeta{Name: w.name},
		Spec:       v1alpha1.ClusterBindingSpec{DisplayName: "prod", Owner: v1alpha1.Owner{Issuer: "https://i.example.org", Subject: "s", Username: "alice"}},
	}))
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) get() *v1alpha1.ClusterBinding {
	w.Helper()
	b := &v1alpha1.ClusterBinding{}
	w.must(w.api.Get(w.Context(), client.ObjectKey{Name: w.name}, b))
	return b
}

// say writes a part on what was read some time before.
func (w *world) say(p Part, before *v1alpha1.ClusterBinding, change func(*v1alpha1.ClusterBinding)) error {
	want := before.DeepCopy()
	change(want)
	return p.Write(w.Context(), w.api, before, want)
}

func ready(b *v1alpha1.ClusterBinding) {
	b.Status.TenantNamespace = "tenant"
	b.Status.LastSeen = new(metav1.NewTime(now))
	Set(b, metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready"}, now)
	Set(b, metav1.Condition{Type: "Connected", Status: metav1.ConditionTrue, Reason: "Seen"}, now)
}

func synced(b *v1alpha1.ClusterBinding) {
	b.Status.Bridge = &v1alpha1.BridgeStatus{Epoch: "e", Sequence: 7}
	Set(b, metav1.Condition{Type: "Synced", Status: metav1.ConditionTrue, Reason: "Following"}, now)
}

// said are the types of all conditions, and the fields.
func (w *world) said() []string {
	w.Helper()
	b := w.get()
	var out []string
	for _, kind := range []string{"Ready", "Connected", "Synced"} {
		if c := meta.FindStatusCondition(b.Status.Conditions, kind); c != nil {
			out = append(out, c.Type)
			if !c.LastTransitionTime.Time.Equal(now) || c.ObservedGeneration != b.Generation {
				w.Errorf("condition %+v, want it to be of generation %d since %s", c, b.Generation, now)
			}
		}
	}
	if b.Status.TenantNamespace != "" {
		out = append(out, "tenantNamespace")
	}
	if b.Status.LastSeen != nil {
		out = append(out, "lastSeen")
	}
	if b.Status.Bridge != nil {
		out = append(out, "bridge")
	}
	return out
}

func (w *world) says(want ...string) {
	w.Helper()
	if diff := cmp.Diff(want, w.said()); diff != "" {
		w.Errorf("the status (-want +got)\n%s", diff)
	}
}

// A patch of the list of conditions that was made from what the first has read
// would lose the second's.
func testNeitherLosesWhatTheOtherSays(_ *testing.T, w *world) {
	read := w.get()
	w.must(w.say(bridge, read, synced))
	w.must(w.say(backend, read, ready))
	w.says("Ready", "Connected", "Synced", "tenantNamespace", "lastSeen", "bridge")
}

func testOnlyOnesOwnIsRemoved(_ *testing.T, w *world) {
	w.must(w.say(backend, w.get(), ready))
	w.must(w.say(bridge, w.get(), synced))
	w.must(w.say(backend, w.get(), func(b *v1alpha1.ClusterBinding) {
		b.Status.LastSeen = nil
		meta.RemoveStatusCondition(&b.Status.Conditions, "Connected")
	}))
	w.says("Ready", "Synced", "tenantNamespace", "bridge")
	nothing := func(b *v1alpha1.ClusterBinding) { b.Status = v1alpha1.ClusterBindingStatus{} }
	w.must(w.say(backend, w.get(), nothing))
	w.says("Synced", "bridge")
	w.must(w.say(bridge, w.get(), nothing))
	w.says()
}

func testAnotherObjectIsLeftAlone(t *testing.T, w *world) {
	read := w.get()
	w.must(w.api.Delete(t.Context(), read))
	if err := w.say(backend, read, ready); !apierrors.IsNotFound(err) {
		t.Errorf("on an object that is gone: %v", err)
	}
	w.create()
	for name, write := range map[string]func() error{
		"a part":      func() error { return w.say(backend, read, ready) },
		"a replacing": func() error { want := read.DeepCopy(); ready(want); return Replace(t.Context(), w.api, read, want) },
	} {
		if err := write(); !apierrors.IsConflict(err) {
			t.Errorf("%s on another object: %v", name, err)
		}
	}
	w.says()
}

func testChangesAreConflicts(t *testing.T, w *world) {
	read := w.get()
	w.must(w.say(backend, read, ready))
	if err := w.say(bridge, read, synced); !apierrors.IsConflict(err) {
		t.Errorf("a part that is locked: %v", err)
	}
	want := read.DeepCopy()
	synced(want)
	if err := Replace(t.Context(), w.api, read, want); !apierrors.IsConflict(err) {
		t.Errorf("a replacing: %v", err)
	}
	read = w.get()
	want = read.DeepCopy()
	synced(want)
	w.must(Replace(t.Context(), w.api, read, want))
	if read.ResourceVersion == want.ResourceVersion || want.ResourceVersion != w.get().ResourceVersion {
		t.Errorf("what was replaced has version %s", want.ResourceVersion)
	}
	w.says("Ready", "Connected", "Synced", "tenantNamespace", "lastSeen", "bridge")
}
