package app_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/konnector/internal/base"
)

// H9: labels and annotations travel by an allow-list, in either direction, and what
// does not travel stays where its author wrote it.
func TestH9_WhatDoesNotTravelStaysWhereItsAuthorWroteIt(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	u := w.object("orders", spec("small"))
	u.SetLabels(map[string]string{"team": "a", "app.kubernetes.io/name": "orders", "sidecar.istio.io/inject": "true"})
	u.SetAnnotations(map[string]string{"note": "hello", "policies.kyverno.io/x": "1", "eks.amazonaws.com/role-arn": "arn"})
	w.must(w.alice.Create(t.Context(), u))
	w.committed("orders")
	for _, key := range []string{"sidecar.istio.io", "policies.kyverno.io", "eks.amazonaws.com"} {
		if strings.Contains(w.text("orders"), key) {
			t.Errorf("%s reached Git:\n%s", key, w.text("orders"))
		}
	}
	for _, key := range []string{"team: a", "app.kubernetes.io/name: orders", "note: hello"} {
		if !strings.Contains(w.text("orders"), key) {
			t.Errorf("%s did not reach Git:\n%s", key, w.text("orders"))
		}
	}
	// Changed there, it is no commit.
	head := w.main().Head()
	w.edit("orders", func(u *unstructured.Unstructured) {
		w.annotate(u, "policies.kyverno.io/x", "2")
		w.annotate(u, "reflector.v1.k8s.emberstack.com/reflects", "x")
	})
	w.never("it is committed", func() bool { return w.changedSince(string(head)) })

	// In Git, too, it stays with its author: it neither reaches the object, nor takes
	// away what is there, nor goes with the next commit.
	written := strings.Replace(w.text("orders"), "    note: hello\n", "    note: hello\n    policies.kyverno.io/x: git\n    example.com/owner: git\n", 1)
	written = strings.Replace(written, "plan: small", "plan: medium", 1)
	w.put(w.person, "Change orders", w.key("orders").Path(), []byte(written))
	w.objectIs("orders", plan("medium"))
	w.committed("orders")
	w.keeps("orders", "2")
	w.setSpec("orders", "big", "plan")
	w.fileIs("orders", plan("big"))
	w.committed("orders")
	if got, want := w.text("orders"), strings.Replace(written, "plan: medium", "plan: big", 1); !sameLines(got, want) {
		t.Errorf("the file is\n%s\nwant\n%s", got, want)
	}
	w.keeps("orders", "2")
	head = w.main().Head()
	w.stop()
	w.start()
	w.committed("orders")
	w.never("it is committed again", func() bool { return w.changedSince(string(head)) })
}

// H9: what a template lists travels, once it does, and stays when it does not any more.
func TestH9_WhatTheExportListsTravels(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	u := w.object("orders", spec("small"))
	u.SetAnnotations(map[string]string{"example.com/owner": "a", "policies.kyverno.io/x": "1"})
	w.must(w.alice.Create(t.Context(), u))
	w.committed("orders")
	if strings.Contains(w.text("orders"), "example.com") {
		t.Errorf("it reached Git:\n%s", w.text("orders"))
	}
	w.metadataKeys = []string{"example.com/"}
	w.publish(nil)
	w.eventually("example.com/owner is on main", func() error {
		if !strings.Contains(w.text("orders"), "example.com/owner: a") || strings.Contains(w.text("orders"), "kyverno") {
			return errorf("it is\n%s", w.text("orders"))
		}
		return nil
	})
	w.committed("orders")
	w.put(w.person, "Change orders", w.key("orders").Path(), []byte(strings.Replace(w.text("orders"), "owner: a", "owner: b", 1)))
	w.eventually("the object has it", func() error {
		if got := w.get("orders").GetAnnotations()["example.com/owner"]; got != "b" {
			return errorf("it has %q", got)
		}
		return nil
	})
	w.committed("orders")
	head := w.main().Head()
	w.metadataKeys, w.offer = nil, &v1alpha1.Offer{DisplayName: "PostgreSQL", Group: "Databases"}
	w.publish(nil)
	w.eventually("the konnector has the list", func() error {
		b := &v1alpha1.APIServiceBinding{}
		if err := w.client.Get(t.Context(), client.ObjectKey{Name: w.binding}, b); err != nil || len(b.Status.MetadataKeys) > 0 || b.Status.Offer == nil || b.Status.Offer.DisplayName != "PostgreSQL" {
			return errorf("%v, %v, %v", b.Status.MetadataKeys, b.Status.Offer, err)
		}
		return nil
	})
	w.edit("orders", func(u *unstructured.Unstructured) { w.annotate(u, "example.com/owner", "c") })
	w.never("it is committed", func() bool { return w.changedSince(string(head)) })
	if got := w.get("orders").GetAnnotations()["example.com/owner"]; got != "c" {
		t.Errorf("the object has %q", got)
	}
	// A list that lets steer us is refused as a whole.
	w.metadataKeys = []string{"crossplane.io/external-name"}
	w.publish(nil)
	if m := w.bindingIs("ExportInvalid"); !strings.Contains(m, "never travels") {
		t.Errorf("message %q", m)
	}
}

// H9: a file has had a key that the template lists later. It comes to the object, and is
// no key that somebody took out of it.
func TestH9_WhatIsListedLaterComesFromTheFile(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	names := []string{"by-git", "edited"}
	for _, name := range names {
		w.put(w.person, "Order "+name, w.key(name).Path(), fmt.Appendf(nil, "apiVersion: %s/v1\nkind: PostgresqlInstance\nmetadata:\n  name: %s\n  namespace: %s\n"+
			"  annotations: {example.com/owner: ada}\nspec: {service: a9s-postgresql13, plan: small}\n", w.group, name, w.namespace))
	}
	w.inStep(names...)
	// One of the files is the konnector's since.
	w.setSpec("edited", "medium", "plan")
	w.fileIs("edited", plan("medium"))
	w.inStep("edited")

	w.metadataKeys = []string{"example.com/"}
	w.publish(nil)
	for _, name := range names {
		w.eventually(name+" has it", func() error {
			if got := w.get(name).GetAnnotations()["example.com/owner"]; got != "ada" {
				return errorf("it has %q", got)
			}
			return nil
		})
		w.setSpec(name, "big", "plan")
		w.fileIs(name, plan("big"))
		w.inStep(name)
		if !strings.Contains(w.text(name), "example.com/owner: ada") {
			t.Errorf("the file is\n%s", w.text(name))
		}
	}
	// Now that it travels, it can be taken away.
	w.edit("by-git", func(u *unstructured.Unstructured) { w.annotate(u, "example.com/owner", "") })
	w.eventually("it is gone from the file", func() error {
		if strings.Contains(w.text("by-git"), "owner") {
			return errorf("it is\n%s", w.text("by-git"))
		}
		return nil
	})
	w.inStep("by-git")
}

// H9: claims that have in Git, and in their base, what travelled before the allow-list
// cause no commit.
func TestH9_WhatIsInGitFromBeforeCausesNoCommit(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	w.apply("orders", spec("small"))
	w.committed("orders")
	w.stop()
	path := w.key("orders").Path()
	data := strings.Replace(w.text("orders"), "spec:", "  annotations:\n    policies.kyverno.io/x: \"1\"\nspec:", 1)
	head := w.put(w.person, "As it was", path, []byte(data))
	entry, _ := w.main().Entry(path)
	u := w.get("orders")
	b := base.Read(u)
	b.Commit, b.Blob = string(head), string(entry.Hash)
	b.Claim.Annotations = map[string]string{"policies.kyverno.io/x": "1"}
	value, err := b.Encode()
	w.must(err)
	w.annotate(u, v1alpha1.BaseAnnotation, value)
	w.annotate(u, "policies.kyverno.io/x", "2")
	w.must(w.client.Update(t.Context(), u))
	w.start()
	w.committed("orders")
	w.never("it is committed", func() bool { return w.changedSince(string(head)) })
	w.setSpec("orders", "big", "plan")
	w.fileIs("orders", plan("big"))
	if !strings.Contains(w.text("orders"), `policies.kyverno.io/x: "1"`) {
		t.Errorf("the file is\n%s", w.text("orders"))
	}
}

// keeps wants the object to have what was written to it here.
func (w *world) keeps(name, x string) {
	w.Helper()
	u := w.get(name)
	a := u.GetAnnotations()
	if a["policies.kyverno.io/x"] != x || a["eks.amazonaws.com/role-arn"] != "arn" || a["example.com/owner"] != "" || a["note"] != "hello" || u.GetLabels()["sidecar.istio.io/inject"] != "true" {
		w.Errorf("the object has labels %v, annotations %v", u.GetLabels(), a)
	}
}

func (w *world) text(name string) string {
	w.Helper()
	data, err := w.main().Read(w.key(name).Path())
	w.must(err)
	return string(data)
}

// sameLines ignores the order of fields, and defaults.
func sameLines(got, want string) bool {
	lines := map[string]bool{}
	for line := range strings.Lines(got) {
		lines[strings.TrimSpace(line)] = true
	}
	for line := range strings.Lines(want) {
		if !lines[strings.TrimSpace(line)] {
			return false
		}
	}
	return true
}
