package app_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store"
)

// These are what the scenarios of removing, restoring and rebuilding look at and
// do, from outside.

// inStep waits until objects and files say the same, and nothing is held.
func (w *world) inStep(names ...string) {
	w.Helper()
	for _, name := range names {
		w.committed(name)
		w.conditionIs(name, "Held", "None")
		w.eventually(name+" and its file agree", func() error {
			data, err := w.main().Read(w.key(name).Path())
			if err != nil {
				return err
			}
			c, err := contract.Decode(contract.File{Path: w.key(name).Path(), Data: data}, w.kind.Kind)
			if err != nil {
				return err
			}
			u := w.get(name)
			if u == nil || u.GetDeletionTimestamp() != nil {
				return errors.New("the object goes, or is gone")
			}
			live, _, _ := unstructured.NestedMap(u.Object, "spec")
			if c.Spec["expose"] == nil {
				c.Spec["expose"] = "Internal" // the schema's default
			}
			return cmpError(live, c.Spec)
		})
	}
}

// live checks that objects live.
func (w *world) live(names ...string) {
	w.Helper()
	for _, name := range names {
		if u := w.get(name); u == nil || u.GetDeletionTimestamp() != nil {
			w.Errorf("%s goes, or is gone", name)
		}
	}
}

// stay is live, once the konnector has looked.
func (w *world) stay(names ...string) {
	w.Helper()
	w.looks()
	w.live(names...)
}

// held waits until all are held for a reason, and returns one message.
func (w *world) held(reason string, names ...string) (message string) {
	w.Helper()
	for _, name := range names {
		message = w.conditionIs(name, "Held", reason)
	}
	return message
}

// terminates waits until an object's delete has begun.
func (w *world) terminates(names ...string) {
	w.Helper()
	for _, name := range names {
		w.eventually(name+" terminates", func() error {
			if u := w.get(name); u == nil || u.GetDeletionTimestamp() == nil {
				return fmt.Errorf("it does not: %v", u)
			}
			return nil
		})
	}
}

// goes plays the control plane: each is gone there, and then here.
func (w *world) goes(names ...string) {
	w.Helper()
	w.terminates(names...)
	for _, name := range names {
		w.fileGone(name)
		w.answer(name, contract.Status{Result: contract.Gone, UID: string(w.get(name).GetUID())})
		w.objectGone(name)
	}
}

// applied plays the control plane, and waits until that was seen.
func (w *world) applied(names ...string) {
	w.Helper()
	for _, name := range names {
		w.answer(name, contract.Status{Result: contract.Applied, UID: string(w.get(name).GetUID())})
	}
	for _, name := range names {
		w.conditionIs(name, "Applied", "Applied")
	}
}

// approve writes an annotation on the Connection, as `kubectl gitbind approve` does.
func (w *world) approve(annotation, commit string) {
	w.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{annotation: commit}}})
	w.must(err)
	w.must(w.client.Patch(w.Context(), &v1alpha1.Connection{ObjectMeta: w.getConnection().ObjectMeta}, client.RawPatch("application/merge-patch+json", patch)))
}

func (w *world) approveMain() {
	w.Helper()
	w.approve(v1alpha1.ApproveMainAnnotation, string(w.main().Head()))
}

// approveRemovals does what the Connection says to do.
func (w *world) approveRemovals() {
	w.Helper()
	message := w.removalsHeld("")
	_, commit, ok := strings.Cut(message, "kubectl gitbind approve --removals ")
	if commit, _, _ = strings.Cut(commit, "."); !ok || len(commit) != 40 {
		w.Fatalf("it does not say how to go on: %s", message)
	}
	w.approve(v1alpha1.ApproveRemovalsAnnotation, commit)
}

// removalsHeld waits until the Connection says that removals are held, in these
// words, too: it counts while they come.
func (w *world) removalsHeld(words string) (message string) {
	w.Helper()
	w.eventually("the connection says that removals are held", func() error {
		err := hasReason(w.getConnection().Status.Conditions, v1alpha1.ConditionRemovals, "TooManyAtOnce", &message)
		if err == nil && !strings.Contains(message, words) {
			return fmt.Errorf("want %q in: %s", words, message)
		}
		return err
	})
	return message
}

func (w *world) noRemovalsHeld() {
	w.Helper()
	w.eventually("the connection says that none is held", func() error {
		if c := meta.FindStatusCondition(w.getConnection().Status.Conditions, v1alpha1.ConditionRemovals); c == nil || c.Reason != "NoneHeld" {
			return fmt.Errorf("it says %+v", c)
		}
		return nil
	})
}

// resolve decides on one claim, as `kubectl gitbind resolve` does.
func (w *world) resolve(name, choice string) {
	w.Helper()
	w.eventually("decide on "+name, func() error {
		u := w.get(name)
		token, _, _ := unstructured.NestedString(u.Object, "status", "gitbind", "hold", "token")
		choices, _, _ := unstructured.NestedStringSlice(u.Object, "status", "gitbind", "hold", "choices")
		if token == "" || !slices.Contains(choices, choice) {
			return fmt.Errorf("there is no such choice: %v", u.Object["status"])
		}
		a := u.GetAnnotations()
		if a == nil {
			a = map[string]string{}
		}
		a["gitbind.dev/resolve"] = choice + "." + token
		u.SetAnnotations(a)
		return w.alice.Update(w.Context(), u)
	})
}

// pushFiles changes files in one commit of a person; nil removes.
func (w *world) pushFiles(files map[string][]byte) store.Hash {
	w.Helper()
	s, err := w.person.Update(w.Context(), store.Edit{
		Author: store.Signature{Name: "Ada", Email: "ada@example.org"}, Subject: "Change many",
		Apply: func(t *store.Tree) error {
			for path, data := range files {
				if data == nil {
					if err := t.Remove(path); err != nil {
						return err
					}
				} else if err := t.Write(path, data); err != nil {
					return err
				}
			}
			return nil
		},
	})
	w.must(err)
	return s.Head()
}

func (w *world) removeFiles(names ...string) store.Hash {
	w.Helper()
	files := map[string][]byte{}
	for _, name := range names {
		files[w.key(name).Path()] = nil
	}
	return w.pushFiles(files)
}

// claims makes n claims, in step.
func (w *world) claims(n int) (names []string) {
	w.Helper()
	for i := range n {
		names = append(names, fmt.Sprint("c", i))
		w.apply(names[i], spec("small"))
	}
	w.inStep(names...)
	return names
}

// git runs git in the host's repository.
func (w *world) git(args ...string) string {
	w.Helper()
	return w.host.run(append([]string{"-C", w.host.dir}, args...)...)
}

// force moves a branch as only somebody at the host can; "" deletes it.
func (w *world) force(branch, commit string) {
	w.Helper()
	if commit == "" {
		w.git("update-ref", "-d", "refs/heads/"+branch)
	} else {
		w.git("update-ref", "refs/heads/"+branch, commit)
	}
	w.host.tell()
}

func (w *world) head(branch string) string {
	w.Helper()
	return w.git("rev-parse", "refs/heads/"+branch)
}

// observed is the control plane's word that main as it is was answered, at a point
// of the branch status.
func (w *world) observed(epoch string, sequence int64) {
	w.Helper()
	data, err := contract.EncodeObserved(contract.Observed{Commit: string(w.main().Head()), Sequence: sequence, Epoch: epoch})
	w.must(err)
	w.put(w.bridge, "observed", contract.ObservedPath, data)
}
