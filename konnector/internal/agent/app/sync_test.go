package app_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store"
)

func (w *world) another(name string, than string) {
	w.Helper()
	w.eventually("another object "+name, func() error {
		if u := w.get(name); u == nil || string(u.GetUID()) == than {
			return errorf("not yet")
		}
		return nil
	})
}

func TestD24_RemovalRevertedWhileTheObjectTerminates(t *testing.T) {
	t.Parallel()
	for choice, check := range map[string]func(w *world, uid string){
		"release": func(w *world, uid string) {
			w.another("orders", uid)
			w.committed("orders")
		},
		"delete": func(w *world, uid string) {
			w.fileGone("orders")
			w.answer("orders", contract.Status{Result: contract.Gone, UID: uid})
			w.objectGone("orders")
		},
	} {
		t.Run(choice, func(t *testing.T) {
			t.Parallel()
			w := newLoop(t)
			u := w.apply("orders", spec("small"))
			w.committed("orders")
			path := w.key("orders").Path()
			data, err := w.main().Read(path)
			w.must(err)
			w.commit("orders")
			w.terminates("orders")
			w.put(w.person, "Revert", path, data)
			if m := w.conditionIs("orders", "Held", "FileCameBack"); !strings.Contains(m, "cannot be undone") {
				t.Errorf("message %q", m)
			}
			w.never("it is removed a second time", func() bool { _, ok := w.main().Entry(path); return !ok })
			w.decideOn("orders", "FileCameBack", choice)
			check(w, string(u.GetUID()))
		})
	}
}

func TestD27_AnotherToolReappliesTheOldManifest(t *testing.T) {
	t.Parallel()
	w := newAttributedLoop(t)
	w.apply("orders", spec("small"))
	w.committed("orders")
	big := func() {
		w.commit("orders", "service: a9s-postgresql13", "plan: big")
		w.objectIs("orders", plan("big"))
		w.committed("orders")
	}
	reapplied := func() { w.setSpec("orders", "small", "plan") }
	big()
	reapplied()
	w.fileIs("orders", plan("small"))
	w.committed("orders")
	big()
	reapplied()
	m := w.conditionIs("orders", "Held", "FlipFlop")
	for _, want := range []string{"spec.plan", "alice in this cluster", "Ada in Git"} {
		if !strings.Contains(m, want) {
			t.Errorf("%q does not say %s", m, want)
		}
	}
	w.fileIs("orders", plan("big"))
	// Again and again, and after a restart.
	w.edit("orders", func(u *unstructured.Unstructured) { w.annotate(u, "tool.example.org/applied", "") })
	w.stop()
	w.start()
	w.never("it is committed", func() bool { return plan("big")(w.fileSpec("orders")) != nil })
	if again := w.conditionIs("orders", "Held", "FlipFlop"); again != m {
		t.Errorf("it was %q, and now is %q", m, again)
	}
	w.decideOn("orders", "FlipFlop", "cluster")
	w.fileIs("orders", plan("small"))
	w.decided("orders")
}

// fileSpec is what main says now.
func (w *world) fileSpec(name string) map[string]any {
	w.Helper()
	path := w.key(name).Path()
	data, err := w.main().Read(path)
	w.must(err)
	c, err := contract.Decode(contract.File{Path: path, Data: data}, w.kind.Kind)
	w.must(err)
	return c.Spec
}

func TestD29_DefaultsAndAnotherVersionCauseNoCommit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	second := func(crd *apiextensionsv1.CustomResourceDefinition) {
		v := *crd.Spec.Versions[0].DeepCopy()
		v.Name, v.Storage = "v1beta1", false
		crd.Spec.Versions = append(crd.Spec.Versions, v)
	}
	w.publish(second)
	w.loopPublished()
	w.commit("orders", "service: a9s-postgresql13", "plan: small")
	w.committed("orders")
	// By the other version: an edit that says nothing new, and one that does.
	u := w.object("orders", nil)
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: w.group, Version: "v1beta1", Kind: w.kind.Kind})
	w.must(w.alice.Get(t.Context(), client.ObjectKeyFromObject(u), u))
	w.annotate(u, "kubectl.kubernetes.io/last-applied-configuration", "{}")
	w.must(w.alice.Update(t.Context(), u))
	// A new default for all that is there.
	w.publish(func(crd *apiextensionsv1.CustomResourceDefinition) {
		properties := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties
		properties["spec"].Properties["tier"] = apiextensionsv1.JSONSchemaProps{Type: "string", Default: &apiextensionsv1.JSON{Raw: []byte(`"normal"`)}}
		second(crd)
	})
	w.eventually("the default is in force", func() error { return field("normal", "tier")(w.get("orders").Object["spec"].(map[string]any)) })
	w.never("a commit", func() bool { return len(w.log("%h")) > 1 })
	// The other version in the file changes nothing, either.
	w.writes.takeAll()
	path := w.key("orders").Path()
	data := strings.Replace(string(w.file("orders", "service: a9s-postgresql13", "plan: small")), "/v1\n", "/v1beta1\n", 1)
	w.put(w.person, "Use the other version", path, []byte(data))
	w.commit("next", "service: a9s-postgresql13")
	w.committed("next")
	w.never("a commit", func() bool { return len(w.log("%h")) > 3 })
	w.setSpec("orders", "big", "plan")
	w.fileIs("orders", plan("big"))
}

func TestD30_EditsDuringWritesFromGit(t *testing.T) {
	t.Parallel()
	w := newAttributedLoop(t)
	w.apply("orders", spec("small"))
	w.committed("orders")
	const rounds = 8
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range rounds {
			w.commitField("orders", fmt.Sprint("git-", i))
		}
	}()
	for i := range rounds {
		w.setSpec("orders", int64(100+i), "parameters", "maxConnections")
	}
	<-done
	both := func(spec map[string]any) error {
		if err := field(fmt.Sprint("git-", rounds-1), "parameters", "logStatement")(spec); err != nil {
			return err
		}
		return field(int64(100+rounds-1), "parameters", "maxConnections")(spec)
	}
	w.fileIs("orders", both)
	w.objectIs("orders", both)
	w.committed("orders")
	w.conditionIs("orders", "Conflict", "None")
}

// commitField sets parameters.logStatement in the file as it is.
func (w *world) commitField(name, value string) {
	path := w.key(name).Path()
	w.commitFile(path, func(data []byte) ([]byte, error) {
		c, err := contract.Decode(contract.File{Path: path, Data: data}, w.kind.Kind)
		if err != nil {
			return nil, err
		}
		if err := unstructured.SetNestedField(c.Spec, value, "parameters", "logStatement"); err != nil {
			return nil, err
		}
		return contract.Encode(c)
	})
}

// commitFile changes a file as it is then, as a person.
func (w *world) commitFile(path string, change func([]byte) ([]byte, error)) {
	_, err := w.person.Update(w.Context(), store.Edit{
		Author: store.Signature{Name: "Ada", Email: "ada@example.org"}, Subject: "Change " + path,
		Apply: func(t *store.Tree) error {
			data, err := t.Read(path)
			if err != nil {
				return err
			}
			if data, err = change(data); err != nil {
				return err
			}
			return t.Write(path, data)
		},
	})
	if err != nil {
		w.Error(err)
	}
}

// Killed between the push and the base, and then edited again by the same user.
func TestD31_EditedAgainAfterAPushThatWasNotRecorded(t *testing.T) {
	t.Parallel()
	for name, back := range map[string]string{"on": "big", "back": "small"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newAttributedLoop(t)
			w.apply("orders", spec("small"))
			w.committed("orders")
			w.writes.refuseIf(func(r *http.Request) bool {
				return r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/"+w.plural+"/orders")
			})
			w.setSpec("orders", "medium", "plan")
			w.fileIs("orders", plan("medium"))
			w.stop()
			w.setSpec("orders", back, "plan")
			w.writes.refuseIf(nil)
			w.start()
			w.fileIs("orders", plan(back))
			w.objectIs("orders", plan(back))
			w.committed("orders")
			w.conditionIs("orders", "Conflict", "None")
			if by := strings.Join(w.log("%an"), " "); by != "alice alice alice" {
				t.Errorf("commits by %s", by)
			}
		})
	}
}

func TestD32_KubectlReplace(t *testing.T) {
	t.Parallel()
	w := newAttributedLoop(t)
	u := w.apply("orders", map[string]any{"service": "a9s-postgresql13", "plan": "small", "parameters": map[string]any{"logStatement": "ddl"}})
	w.committed("orders")
	manifest := filepath.Join(t.TempDir(), "orders.yaml")
	w.must(os.WriteFile(manifest, w.file("orders", "service: a9s-postgresql13", "plan: big"), 0o600))
	w.kubectl("replace", "-f", manifest)
	w.fileIs("orders", func(spec map[string]any) error {
		return cmpError(map[string]any{"service": "a9s-postgresql13", "plan": "big", "expose": "Internal"}, spec)
	})
	w.committed("orders")
	if got := w.get("orders"); got.GetUID() != u.GetUID() || len(got.GetFinalizers()) != 1 {
		t.Errorf("uid %s, finalizers %v", got.GetUID(), got.GetFinalizers())
	}
	w.conditionIs("orders", "Conflict", "None")
}

// L7: without the attribution policy a replace takes our annotations, too. What the
// object's status says is left: that it was agreed on, and when.
func TestL7_AReplaceDoesNotBringBackWhatAPullRequestRemoved(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	names := []string{"kept", "ended", "edited"}
	for _, name := range names {
		w.apply(name, spec("small"))
	}
	w.inStep(names...)
	w.stop()
	w.commit("kept")
	w.commit("ended")
	for _, name := range names {
		manifest := filepath.Join(t.TempDir(), name+".yaml")
		w.must(os.WriteFile(manifest, w.file(name, "service: a9s-postgresql13", "plan: big"), 0o600))
		w.kubectl("replace", "-f", manifest)
		if u := w.get(name); u.GetAnnotations()[v1alpha1.BaseAnnotation] != "" {
			t.Fatalf("the base of %s is still there: %v", name, u.GetAnnotations())
		}
	}
	w.start()
	w.held("ChangedAndRemoved", "kept", "ended")
	// A replace is an edit as any other.
	w.fileIs("edited", plan("big"))
	w.inStep("edited")
	w.conditionIs("edited", "Conflict", "None")
	for _, name := range []string{"kept", "ended"} {
		if _, ok := w.main().Entry(w.key(name).Path()); ok {
			t.Errorf("%s is committed again", name)
		}
	}

	w.resolve("kept", "keep")
	w.fileIs("kept", plan("big"))
	w.inStep("kept")
	// The replace took the finalizer, too: there is nothing to wait for.
	w.resolve("ended", "delete")
	w.objectGone("ended")
	if _, ok := w.main().Entry(w.key("ended").Path()); ok {
		t.Error("its file is back")
	}
}

// Nor does a replace by the first manifest take back what a pull request changed since without
// saying so: what it brings is kept on a branch.
func TestL7_AReplaceByTheFirstManifestLosesNothing(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	names := []string{"written", "behind", "merged", "own"}
	manifests := map[string]string{}
	for _, name := range names {
		w.apply(name, spec("small"))
		w.committed(name)
		manifests[name] = filepath.Join(t.TempDir(), name+".yaml")
		w.must(os.WriteFile(manifests[name], w.file(name, "service: a9s-postgresql13", "plan: small"), 0o600))
	}
	w.inStep(names...)
	w.commit("written", "service: a9s-postgresql13", "plan: big")
	w.objectIs("written", plan("big"))
	w.setSpec("own", "big", "plan")
	w.fileIs("own", plan("big"))
	w.inStep("written", "own")
	w.stop()
	w.commit("behind", "service: a9s-postgresql13", "plan: big")
	w.commit("merged", "service: a9s-postgresql13", "plan: big")
	w.setSpec("merged", int64(120), "parameters", "maxConnections")
	w.start()
	w.objectIs("merged", plan("big"))
	w.inStep("merged")
	w.stop()
	for _, name := range names {
		w.kubectl("replace", "-f", manifests[name])
	}
	w.start()
	for _, name := range []string{"written", "behind", "merged"} {
		w.conditionIs(name, "Conflict", "BothExist")
		w.fileIs(name, plan("big"))
		w.objectIs(name, plan("big"))
	}
	// Nobody else has changed it.
	w.fileIs("own", plan("small"))
	w.conditionIs("own", "Conflict", "None")
}

// As Velero does: the object as it was saved, with all annotations, into a
// cluster where it is gone.
func TestD32_RestoredFromSavedYAML(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	w.commit("orders", "service: a9s-postgresql13", "plan: small")
	w.committed("orders")
	saved := w.get("orders")
	w.annotate(saved, v1alpha1.ResolveAnnotation, "delete.0123456789")
	w.annotate(saved, v1alpha1.ChangedByAnnotation, "mallory")
	saved.SetResourceVersion("")
	saved.SetUID("")
	w.commit("orders")
	w.terminates("orders")
	w.answer("orders", contract.Status{Result: contract.Gone})
	w.objectGone("orders")
	// Its service is gone: it is a new one.
	w.must(w.alice.Create(t.Context(), saved.DeepCopy()))
	w.fileIs("orders", plan("small"))
	w.committed("orders")
	w.stay("orders")

	// Restored over a file that went on: Git is ahead, and nothing is lost.
	w.commit("orders", "service: a9s-postgresql13", "plan: big")
	w.objectIs("orders", plan("big"))
	w.committed("orders")
	w.stop()
	w.edit("orders", func(u *unstructured.Unstructured) { u.SetFinalizers(nil) })
	w.deleteObject("orders")
	w.must(w.alice.Create(t.Context(), saved.DeepCopy()))
	w.start()
	w.keptSays("orders", "BothExist", plan("small"))
	w.objectIs("orders", plan("big"))
	w.fileIs("orders", plan("big"))
}

// What a user writes into our annotations says nothing.
func TestD32_ForgedAnnotations(t *testing.T) {
	t.Parallel()
	w := newAttributedLoop(t)
	w.apply("orders", spec("small"))
	w.committed("orders")
	base := w.get("orders").GetAnnotations()[v1alpha1.BaseAnnotation]
	w.writes.takeAll()
	w.edit("orders", func(u *unstructured.Unstructured) {
		w.annotate(u, v1alpha1.BaseAnnotation, strings.Replace(base, `"uid"`, `"removed":true,"uid"`, 1))
		w.annotate(u, v1alpha1.ChangedByAnnotation, "mallory")
		w.annotate(u, v1alpha1.ResolveAnnotation, "delete.0123456789")
	})
	if got := w.get("orders").GetAnnotations()[v1alpha1.BaseAnnotation]; got != base {
		t.Errorf("the base is %s", got)
	}
	w.never("something is written", func() bool { return len(w.writes.take(w.group)) > 0 || len(w.log("%h")) > 1 })
	w.setSpec("orders", "big", "plan")
	w.fileIs("orders", plan("big"))
	if by := w.log("%an")[0]; by != "alice" {
		t.Errorf("committed as %s's", by)
	}
}

func (w *world) setWriter(writer v1alpha1.Writer) {
	w.Helper()
	w.eventually("writer is "+string(writer), func() error {
		b := &v1alpha1.APIServiceBinding{}
		w.must(w.client.Get(w.Context(), client.ObjectKey{Name: w.binding}, b))
		b.Spec.Writer = writer
		return w.client.Update(w.Context(), b)
	})
}

func TestOnlyGitWrites(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	w.apply("orders", spec("small"))
	w.committed("orders")
	// Afterwards the policy of protection would refuse these.
	w.stop()
	w.apply("later", spec("small"))
	w.setSpec("orders", "big", "plan")
	w.setWriter(v1alpha1.WriterGit)
	w.start()
	w.conditionIs("later", "Held", "GitWrites")
	w.keptSays("orders", "GitWrites", plan("big"))
	w.objectIs("orders", plan("small"))
	w.fileIs("orders", plan("small"))
	w.deleteObject("orders")
	w.conditionIs("orders", "Held", "GitWrites")
	w.fileIs("orders", plan("small"))
	w.setWriter(v1alpha1.WriterBoth)
	w.committed("later")
}

func TestOnlyTheClusterWrites(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	w.apply("orders", spec("small"))
	w.committed("orders")
	w.stop()
	w.setWriter(v1alpha1.WriterCluster)
	w.start()
	w.commit("orders", "service: a9s-postgresql13", "plan: big")
	w.conditionIs("orders", "Held", "ClusterWrites")
	w.objectIs("orders", plan("small"))
	if file, _ := w.hold("orders")["file"].(string); !strings.Contains(file, "plan: big") {
		t.Errorf("it does not show the file: %v", w.hold("orders"))
	}
	w.decideOn("orders", "ClusterWrites", "cluster")
	w.fileIs("orders", plan("small"))
	w.decided("orders")
}

func TestPausedClaimIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := newAttributedLoop(t)
	w.apply("orders", spec("small"))
	w.committed("orders")
	w.edit("orders", func(u *unstructured.Unstructured) { w.annotate(u, v1alpha1.PauseAnnotation, "true") })
	w.conditionIs("orders", "Held", "Paused")
	w.commit("orders", "service: a9s-postgresql13", "plan: big")
	w.setSpec("orders", int64(7), "parameters", "maxConnections")
	w.commit("next", "service: a9s-postgresql13")
	w.committed("next")
	w.never("it is changed", func() bool {
		return plan("small")(w.get("orders").Object["spec"].(map[string]any)) != nil || plan("big")(w.fileSpec("orders")) != nil
	})
	w.edit("orders", func(u *unstructured.Unstructured) { w.annotate(u, v1alpha1.PauseAnnotation, "") })
	merged := func(spec map[string]any) error {
		if err := plan("big")(spec); err != nil {
			return err
		}
		return field(int64(7), "parameters", "maxConnections")(spec)
	}
	w.fileIs("orders", merged)
	w.objectIs("orders", merged)
	w.committed("orders")
}
