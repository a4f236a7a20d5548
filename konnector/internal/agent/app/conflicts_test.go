package app_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gitbind.dev/gitbridge/contract"
)

// both edits an object and its file while the konnector does not run.
func (w *world) both(name string, object, file func()) {
	w.Helper()
	w.stop()
	file()
	object()
	w.start()
}

// hold is what an object's status says that is to be decided.
func (w *world) hold(name string) map[string]any {
	w.Helper()
	hold, _, _ := unstructured.NestedMap(w.get(name).Object, "status", "gitbind", "hold")
	return hold
}

// decideOn decides, as `kubectl gitbind resolve` does, once there is something to
// decide for a reason.
func (w *world) decideOn(name, reason, choice string) {
	w.Helper()
	w.eventually("there is something to decide on "+name, func() error {
		if got := w.hold(name)["reason"]; got != reason {
			return errorf("it is %v", got)
		}
		return nil
	})
	w.edit(name, func(u *unstructured.Unstructured) {
		token, _, _ := unstructured.NestedString(u.Object, "status", "gitbind", "hold", "token")
		w.annotate(u, "gitbind.dev/resolve", choice+"."+token)
	})
}

func (w *world) annotate(u *unstructured.Unstructured, key, value string) {
	a := u.GetAnnotations()
	if a == nil {
		a = map[string]string{}
	}
	if a[key] = value; value == "" {
		delete(a, key)
	}
	u.SetAnnotations(a)
}

// decided waits until nothing is left to decide.
func (w *world) decided(name string) {
	w.Helper()
	w.eventually(name+" is decided", func() error {
		u := w.get(name)
		if hold := w.hold(name); hold != nil || u.GetAnnotations()["gitbind.dev/resolve"] != "" {
			return errorf("hold %v, annotations %v", hold, u.GetAnnotations())
		}
		return nil
	})
	w.committed(name)
}

// keptSays waits for a conflict, and reads the version that lost it.
func (w *world) keptSays(name, reason string, check func(map[string]any) error) (branch string) {
	w.Helper()
	message := w.conditionIs(name, "Conflict", reason)
	branch, _ = w.hold(name)["kept"].(string)
	if branch == "" || !strings.Contains(message, branch) {
		w.Fatalf("the branch is %q; message %q", branch, message)
	}
	path := w.key(name).Path()
	data := w.host.run("-C", w.host.dir, "show", branch+":"+path)
	c, err := contract.Decode(contract.File{Path: path, Data: []byte(data)}, w.kind.Kind)
	w.must(err)
	w.must(check(c.Spec))
	if changed := w.host.run("-C", w.host.dir, "diff", "--name-only", "main..."+branch); changed != path {
		w.Errorf("the branch changes %q", changed)
	}
	return branch
}

func TestD1_BothMadeIndependently(t *testing.T) {
	t.Parallel()
	w := newAttributedLoop(t)
	w.both("orders",
		func() { w.apply("orders", spec("small")) },
		func() { w.commit("orders", "service: a9s-postgresql13", "plan: big") })
	branch := w.keptSays("orders", "BothExist", plan("small"))
	w.objectIs("orders", plan("big"))
	w.committed("orders")
	if by := w.host.run("-C", w.host.dir, "log", "-1", "--format=%an", branch); by != "alice" {
		t.Errorf("kept as %s's", by)
	}
	w.eventually("an Event", func() error { return w.hasEvent("orders", "BothExist", branch) })
	// It stays shown, after a restart too, and through further changes of the file.
	w.stop()
	w.start()
	w.commit("orders", "service: a9s-postgresql13", "plan: medium")
	w.objectIs("orders", plan("medium"))
	w.committed("orders")
	w.keptSays("orders", "BothExist", plan("small"))
	w.decideOn("orders", "BothExist", "file")
	w.decided("orders")
	w.conditionIs("orders", "Conflict", "None")
	w.objectIs("orders", plan("medium"))
}

func TestD1_BothChangedTheSameField(t *testing.T) {
	t.Parallel()
	w := newAttributedLoop(t)
	w.apply("orders", spec("small"))
	w.committed("orders")
	w.both("orders",
		func() { w.setSpec("orders", "medium", "plan") },
		func() { w.commit("orders", "service: a9s-postgresql13", "plan: big") })
	w.keptSays("orders", "BothChanged", plan("medium"))
	if m := w.conditionIs("orders", "Conflict", "BothChanged"); !strings.Contains(m, "spec.plan") || !strings.Contains(m, "alice") {
		t.Errorf("it names neither field nor user: %s", m)
	}
	w.objectIs("orders", plan("big"))
	w.fileIs("orders", plan("big"))
	// What was kept comes back, as alice's edit.
	w.decideOn("orders", "BothChanged", "cluster")
	w.fileIs("orders", plan("medium"))
	w.objectIs("orders", plan("medium"))
	w.decided("orders")
	w.conditionIs("orders", "Conflict", "None")
	if by := w.log("%an")[0]; by != "alice" {
		t.Errorf("committed as %s's", by)
	}
}

// A person merges what was kept of a conflict: the commit says nothing of main, whose
// history it is part of then, but what it changes.
func TestL13_AKeptVersionThatAPersonMergesIsAnEdit(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	w.apply("orders", spec("small"))
	w.committed("orders")
	w.both("orders",
		func() { w.setSpec("orders", "medium", "plan") },
		func() { w.commit("orders", "service: a9s-postgresql13", "plan: big") })
	branch := w.keptSays("orders", "BothChanged", plan("medium"))
	w.objectIs("orders", plan("big"))
	w.committed("orders")
	if said := contract.ParseObjectTrailers(w.git("log", "-1", "--format=%B", branch)); len(said) > 0 {
		t.Errorf("it says that the konnector did %+v on main", said)
	}
	w.force("main", w.git("rev-parse", branch))
	w.objectIs("orders", plan("medium"))
	w.fileIs("orders", plan("medium"))
	w.committed("orders")
	w.conditionIs("orders", "Held", "None")
	// What is edited since is neither lost nor held.
	w.setSpec("orders", "big", "plan")
	w.fileIs("orders", plan("big"))
	w.committed("orders")
	w.stop()
	w.start()
	w.objectIs("orders", plan("big"))
}

func TestD1_AnEditEndsAConflict(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	w.apply("orders", spec("small"))
	w.committed("orders")
	w.both("orders",
		func() { w.setSpec("orders", "medium", "plan") },
		func() { w.commit("orders", "service: a9s-postgresql13", "plan: big") })
	w.keptSays("orders", "BothChanged", plan("medium"))
	w.setSpec("orders", "small", "plan")
	w.fileIs("orders", plan("small"))
	w.conditionIs("orders", "Conflict", "None")
}

func TestD1_BothChangedOtherFields(t *testing.T) {
	t.Parallel()
	w := newAttributedLoop(t)
	w.apply("orders", map[string]any{"service": "a9s-postgresql13", "plan": "small", "parameters": map[string]any{"logStatement": "ddl"}})
	w.committed("orders")
	w.both("orders",
		func() {
			w.edit("orders", func(u *unstructured.Unstructured) {
				w.must(unstructured.SetNestedField(u.Object, int64(120), "spec", "parameters", "maxConnections"))
				u.SetLabels(map[string]string{"team": "a"})
			})
		},
		func() { w.commit("orders", "service: a9s-postgresql13", "plan: big", "parameters: {}") })
	merged := func(spec map[string]any) error {
		return cmpError(map[string]any{"service": "a9s-postgresql13", "plan": "big", "expose": "Internal", "parameters": map[string]any{"maxConnections": int64(120)}}, spec)
	}
	// A field that Git took away goes, too.
	w.fileIs("orders", merged)
	w.objectIs("orders", merged)
	w.committed("orders")
	if subject := w.log("%an: %s")[0]; !strings.HasPrefix(subject, "alice: claim: merge ") {
		t.Errorf("got %q", subject)
	}
	w.conditionIs("orders", "Conflict", "None")
	if w.get("orders").GetLabels()["team"] != "a" {
		t.Error("the label is gone")
	}
}

// Each edit is right alone, and the API server refuses both together.
func TestD1_MergeThatTheAPIServerRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.publish(rule(`!(self.plan == "big" && has(self.parameters) && has(self.parameters.maxConnections) && self.parameters.maxConnections > 100)`, "big plans have 100 connections at most"))
	w.loopPublished()
	w.apply("orders", spec("small"))
	w.committed("orders")
	w.both("orders",
		func() { w.setSpec("orders", int64(200), "parameters", "maxConnections") },
		func() { w.commit("orders", "service: a9s-postgresql13", "plan: big") })
	w.keptSays("orders", "BothChanged", field(int64(200), "parameters", "maxConnections"))
	w.objectIs("orders", plan("big"))
	w.committed("orders")
	// Brought back as it was, with the plan that it had then.
	w.decideOn("orders", "BothChanged", "cluster")
	w.fileIs("orders", plan("small"))
	w.decided("orders")
}

func TestD1_ChangedAndRemoved(t *testing.T) {
	t.Parallel()
	for choice, check := range map[string]func(w *world){
		"keep": func(w *world) {
			w.fileIs("orders", plan("medium"))
			w.decided("orders")
			w.objectIs("orders", plan("medium"))
		},
		"delete": func(w *world) {
			w.conditionIs("orders", "Committed", "Removed")
			w.answer("orders", contract.Status{Result: contract.Gone, UID: string(w.get("orders").GetUID())})
			w.objectGone("orders")
		},
	} {
		t.Run(choice, func(t *testing.T) {
			t.Parallel()
			w := newLoop(t)
			w.apply("orders", spec("small"))
			w.committed("orders")
			w.both("orders", func() { w.setSpec("orders", "medium", "plan") }, func() { w.commit("orders") })
			w.conditionIs("orders", "Held", "ChangedAndRemoved")
			// A decision on something else is none.
			w.edit("orders", func(u *unstructured.Unstructured) { w.annotate(u, "gitbind.dev/resolve", choice+".0123456789") })
			w.eventually("it says so", func() error {
				if _, _, m := condition(w.get("orders"), "Held"); !strings.Contains(m, "Nothing was done") {
					return errorf("%s", m)
				}
				return nil
			})
			w.live("orders")
			w.decideOn("orders", "ChangedAndRemoved", choice)
			check(w)
		})
	}
}

func TestD1_DeletedAndChanged(t *testing.T) {
	t.Parallel()
	for choice, check := range map[string]func(w *world, uid string){
		"delete": func(w *world, uid string) {
			w.fileGone("orders")
			if m := w.host.run("-C", w.host.dir, "log", "-1", "--format=%B", "main"); !strings.Contains(m, contract.TrailerApproved+": "+w.key("orders").Path()) {
				w.Errorf("the control plane is not told that a person decided: %s", m)
			}
			w.answer("orders", contract.Status{Result: contract.Gone, UID: uid})
			w.objectGone("orders")
		},
		"release": func(w *world, uid string) {
			w.eventually("a new one", func() error {
				if u := w.get("orders"); u == nil || string(u.GetUID()) == uid {
					return errorf("not yet")
				}
				return nil
			})
			w.objectIs("orders", plan("big"))
			w.committed("orders")
		},
	} {
		t.Run(choice, func(t *testing.T) {
			t.Parallel()
			w := newLoop(t)
			u := w.apply("orders", spec("small"))
			w.committed("orders")
			w.both("orders", func() { w.deleteObject("orders") }, func() { w.commit("orders", "service: a9s-postgresql13", "plan: big") })
			w.conditionIs("orders", "Held", "DeletedAndChanged")
			w.fileIs("orders", plan("big"))
			w.decideOn("orders", "DeletedAndChanged", choice)
			check(w, string(u.GetUID()))
		})
	}
}

func (w *world) hasEvent(name, reason, words string) error {
	out := w.kubectl("get", "events.events.k8s.io", "-n", w.namespace, "-o", `jsonpath={range .items[*]}{.regarding.name}|{.reason}|{.note}{"\n"}{end}`)
	if !slices.ContainsFunc(strings.Split(out, "\n"), func(l string) bool {
		return strings.HasPrefix(l, name+"|"+reason+"|") && strings.Contains(l, words)
	}) {
		return errorf("%s", out)
	}
	return nil
}

// rule is one that the API server checks of the field spec.
func rule(expression, message string) func(*apiextensionsv1.CustomResourceDefinition) {
	return func(crd *apiextensionsv1.CustomResourceDefinition) {
		properties := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties
		spec := properties["spec"]
		spec.XValidations = apiextensionsv1.ValidationRules{{Rule: expression, Message: message}}
		properties["spec"] = spec
	}
}

func (w *world) kubectl(args ...string) string {
	w.Helper()
	args = append([]string{"--kubeconfig", w.env.Cluster("app").Kubeconfig}, args...)
	out, err := exec.Command(w.env.Kubectl, args...).CombinedOutput()
	if err != nil {
		w.Fatalf("kubectl %v: %v: %s", args, err, out)
	}
	return string(out)
}
