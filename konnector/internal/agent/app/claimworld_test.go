package app_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/konnector/internal/base"
)

func (w *world) key(name string) contract.Key {
	return contract.Key{Binding: w.binding, Namespace: w.namespace, Name: name}
}

// object is a claim to apply.
func (w *world) object(name string, spec map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetGroupVersionKind(w.kind)
	u.SetNamespace(w.namespace)
	u.SetName(name)
	return u
}

func spec(plan string) map[string]any {
	return map[string]any{"service": "a9s-postgresql13", "plan": plan}
}

// apply creates an object as alice.
func (w *world) apply(name string, spec map[string]any) *unstructured.Unstructured {
	w.Helper()
	u := w.object(name, spec)
	w.must(w.alice.Create(w.Context(), u))
	return u
}

func (w *world) get(name string) *unstructured.Unstructured {
	w.Helper()
	u := w.object(name, nil)
	err := w.client.Get(w.Context(), client.ObjectKeyFromObject(u), u)
	if apierrors.IsNotFound(err) {
		return nil
	}
	w.must(err)
	return u
}

// edit changes an object as alice.
func (w *world) edit(name string, change func(u *unstructured.Unstructured)) {
	w.Helper()
	w.eventually("edit "+name, func() error {
		u := w.get(name)
		change(u)
		return w.alice.Update(w.Context(), u)
	})
}

func (w *world) setSpec(name string, value any, fields ...string) {
	w.Helper()
	w.edit(name, func(u *unstructured.Unstructured) {
		if value == nil {
			unstructured.RemoveNestedField(u.Object, append([]string{"spec"}, fields...)...)
			return
		}
		w.must(unstructured.SetNestedField(u.Object, value, append([]string{"spec"}, fields...)...))
	})
}

// deleteObject deletes as alice.
func (w *world) deleteObject(name string) {
	w.Helper()
	w.must(w.alice.Delete(w.Context(), w.object(name, nil)))
}

// put writes a file, or removes it when there are no data.
func (w *world) put(b store.Branch, subject, path string, data []byte) store.Hash {
	w.Helper()
	s, err := b.Update(w.Context(), store.Edit{
		Author: store.Signature{Name: "Ada", Email: "ada@example.org"}, Subject: subject,
		Apply: func(t *store.Tree) error {
			if data == nil {
				return t.Remove(path)
			}
			return t.Write(path, data)
		},
	})
	w.must(err)
	return s.Head()
}

// file is a claim as a person writes it.
func (w *world) file(name string, lines ...string) []byte {
	return fmt.Appendf(nil, "# %s\napiVersion: %s/v1\nkind: PostgresqlInstance\nmetadata: {name: %s, namespace: %s}\nspec:\n    %s\n",
		"the orders database", w.group, name, w.namespace, strings.Join(lines, "\n    "))
}

// commit writes a claim's file as a person; without lines it removes it.
func (w *world) commit(name string, lines ...string) store.Hash {
	w.Helper()
	var data []byte
	if len(lines) > 0 {
		data = w.file(name, lines...)
	}
	return w.put(w.person, "Change "+name, w.key(name).Path(), data)
}

func (w *world) main() *store.Snapshot {
	w.Helper()
	s, err := w.person.Fetch(context.Background())
	w.must(err)
	return s
}

// fileIs waits until main has a claim with this spec.
func (w *world) fileIs(name string, check func(spec map[string]any) error) {
	w.Helper()
	path := w.key(name).Path()
	w.eventually("file of "+name, func() error {
		data, err := w.main().Read(path)
		if err != nil {
			return err
		}
		c, err := contract.Decode(contract.File{Path: path, Data: data}, w.kind.Kind)
		if err != nil {
			return err
		}
		return check(c.Spec)
	})
}

func plan(want string) func(map[string]any) error {
	return field(want, "plan")
}

func field(want any, path ...string) func(map[string]any) error {
	return func(spec map[string]any) error {
		got, _, _ := unstructured.NestedFieldNoCopy(spec, path...)
		if got != want {
			return fmt.Errorf("%s is %v, want %v", strings.Join(path, "."), got, want)
		}
		return nil
	}
}

func (w *world) fileGone(name string) {
	w.Helper()
	w.eventually("no file of "+name, func() error {
		if _, ok := w.main().Entry(w.key(name).Path()); ok {
			return errors.New("it is there")
		}
		return nil
	})
}

// objectIs waits until the object says something.
func (w *world) objectIs(name string, check func(spec map[string]any) error) {
	w.Helper()
	w.eventually("object "+name, func() error {
		u := w.get(name)
		if u == nil {
			return errors.New("there is none")
		}
		spec, _ := u.Object["spec"].(map[string]any)
		return check(spec)
	})
}

func (w *world) objectGone(name string) {
	w.Helper()
	w.eventually("no object "+name, func() error {
		if w.get(name) != nil {
			return errors.New("it is there")
		}
		return nil
	})
}

// condition is one of status.gitbind.conditions.
func condition(u *unstructured.Unstructured, kind string) (status, reason, message string) {
	if u == nil {
		return "", "", ""
	}
	list, _, _ := unstructured.NestedSlice(u.Object, "status", "gitbind", "conditions")
	for _, e := range list {
		c, _ := e.(map[string]any)
		if c["type"] == kind {
			status, _ = c["status"].(string)
			reason, _ = c["reason"].(string)
			message, _ = c["message"].(string)
		}
	}
	return status, reason, message
}

// conditionIs waits for a reason, and returns the message.
func (w *world) conditionIs(name, kind, reason string) (message string) {
	w.Helper()
	w.eventually(fmt.Sprintf("%s of %s is %s", kind, name, reason), func() error {
		_, got, m := condition(w.get(name), kind)
		if message = m; got != reason {
			return fmt.Errorf("it is %s: %s", got, m)
		}
		return nil
	})
	return message
}

// committed waits until an object is in step with main, and says so.
func (w *world) committed(name string) {
	w.Helper()
	w.eventually(name+" is committed", func() error {
		u := w.get(name)
		if s, reason, m := condition(u, "Committed"); s != "True" || u.GetAnnotations()["gitbind.dev/base"] == "" {
			return fmt.Errorf("%s: %s", reason, m)
		}
		list, _, _ := unstructured.NestedSlice(u.Object, "status", "gitbind", "conditions")
		if generation := list[0].(map[string]any)["observedGeneration"]; generation != u.GetGeneration() {
			return fmt.Errorf("that was generation %v of %d", generation, u.GetGeneration())
		}
		return nil
	})
}

// answer writes a ClaimStatus for the file as it is on main.
func (w *world) answer(name string, s contract.Status) {
	w.Helper()
	key := w.key(name)
	main := w.main()
	if e, ok := main.Entry(key.Path()); ok {
		s.Answers.Blob = string(e.Hash)
	}
	s.Answers.Commit = string(main.Head())
	s.Metadata = contract.StatusMeta{Name: key.Name, Namespace: key.Namespace}
	data, err := contract.EncodeStatus(&s)
	w.must(err)
	w.put(w.bridge, "status of "+key.String(), key.Path(), data)
}

// observe says that all of main is answered.
func (w *world) observe() {
	w.Helper()
	data, err := contract.EncodeObserved(contract.Observed{Commit: string(w.main().Head()), Sequence: 1, Epoch: "e1"})
	w.must(err)
	w.put(w.bridge, "observed", contract.ObservedPath, data)
}

// log is the history of main's claims as git shows it, newest first.
func (w *world) log(format string) []string {
	w.Helper()
	return strings.Split(w.host.run("-C", w.host.dir, "log", "--format="+format, "main", "--", ":(glob)bindings/*/claims/**", notBeside), "\n")
}

// changedSince reports whether main has got anything since a commit.
func (w *world) changedSince(commit string) bool {
	w.Helper()
	return w.git("log", "--format=%h", commit+"..main", "--", ".", notBeside) != ""
}

// files counts the claim files on main, of all bindings.
func (w *world) files() (n int) {
	w.Helper()
	for e := range w.main().List(contract.Root) {
		if _, err := contract.ParsePath(e.Path); err == nil {
			n++
		}
	}
	return n
}

// isAgreed reports whether an object says what its base says, byte for byte, in the
// JSON of the API server: of such a one the cache keeps little.
func (w *world) isAgreed(name string) bool {
	w.Helper()
	clients, err := kubernetes.NewForConfig(w.admin)
	w.must(err)
	key := w.key(name)
	data, err := clients.RESTClient().Get().AbsPath("/apis", w.group, "v1", "namespaces", key.Namespace, w.plural, key.Name).DoRaw(w.Context())
	w.must(err)
	var o struct {
		Kind     string
		Metadata metav1.ObjectMeta
		Spec     json.RawMessage
	}
	w.must(json.Unmarshal(data, &o))
	m := &o.Metadata
	_, _, agrees := base.Agrees(base.Object{Kind: o.Kind, UID: m.UID, StatusUID: m.UID, Labels: m.Labels, Annotations: m.Annotations, Spec: o.Spec})
	return agrees
}
