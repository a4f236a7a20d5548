package app_test

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"gitbind.dev/gitbridge/api/v1alpha1"
)

// TestC7_WhatAnAppClusterInstallsJudgesLikeTheControlPlane puts the exported
// definition in the place of the control plane's own, and uses it.
func TestC7_WhatAnAppClusterInstallsJudgesLikeTheControlPlane(test *testing.T) {
	w := newWorld(test)
	brokers := w.define(brokersFile)
	w.startBridge()
	t := w.tenant(brokers)
	var e *v1alpha1.APIServiceExport
	t.eventually("the export is published", func() (err error) {
		e, err = t.exported(brokers)
		return err
	})
	w.bridge.stop()
	installed := &apiextensionsv1.CustomResourceDefinition{}
	w.must(yaml.Unmarshal(e.Status.CRD.Raw, installed))
	live := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: installed.Name}}
	w.must(w.admin.Delete(w.Context(), live))
	w.eventually("the control plane's own is gone", func() error {
		if err := w.admin.Get(w.Context(), client.ObjectKeyFromObject(live), live); !apierrors.IsNotFound(err) {
			return errors.Join(err, errors.New("not yet"))
		}
		return nil
	})
	w.must(w.admin.Create(w.Context(), installed))

	broker := func(name, spec string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		w.must(yaml.Unmarshal([]byte("apiVersion: example.net/v1\nkind: Broker\nmetadata: {name: "+name+", namespace: default}\nspec: "+spec), &u.Object))
		return u
	}
	w.eventually("it is served", func() error { return w.apply(broker("small", "{size: 2, topics: [{name: a}]}")) })
	small := broker("small", "{}")
	w.must(w.admin.Get(w.Context(), client.ObjectKeyFromObject(small), small))
	topics, _, _ := unstructured.NestedSlice(small.Object, "spec", "topics")
	if mode, _, _ := unstructured.NestedString(small.Object, "spec", "mode"); mode != "safe" || len(topics) != 1 || topics[0].(map[string]any)["partitions"] != int64(3) {
		w.Errorf("defaults: %v", small.Object["spec"])
	}
	for spec, words := range map[string]string{
		"{size: 0}":              "greater than or equal to 1",
		"{size: 10}":             "less than or equal to 9",
		"{size: big}":            "must be of type integer",
		"{size: 2, mode: slow}":  `supported values: "fast", "safe"`,
		"{size: 2, owner: Anna}": "should match '^[a-z]+$'",
		"{size: 9}":              "a broker as large as this needs an owner",
		"{size: 2, topics: [{name: a}, {name: a}]}":      "Duplicate value",
		"{size: 2, topics: [{partitions: 2}]}":           "name: Required value",
		"{size: 2, topics: [{name: a, partitions: 0}]}":  "at least one",
		"{size: 2, users: [a, a]}":                       "Duplicate value",
		"{size: 2, mode: null, port: {a: b}}":            "port",
		"{size: 2, pan: x}":                              `unknown field "spec.pan"`,
		"{size: 2, template: {spec: {}}}":                "template.apiVersion: Required value",
		"{size: 2, order: [a,b,c,d,e,f,g,h,i,j,k]}":      "must have at most 10 items",
		"{size: 2, nested: {first: {enabled: perhaps}}}": "must be of type boolean",
	} {
		err := w.admin.Create(w.Context(), broker("bad", spec), client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict))
		if err == nil || !strings.Contains(err.Error(), words) {
			w.Errorf("%s: got %v, want %q", spec, err, words)
		}
	}
	shrunk := small.DeepCopy()
	w.must(unstructured.SetNestedField(shrunk.Object, int64(1), "spec", "size"))
	if err := w.admin.Update(w.Context(), shrunk, client.DryRunAll); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.size: Forbidden: size cannot shrink") {
		w.Errorf("a rule on two versions: %v", err)
	}

	// Two people each own an item of a list with keys.
	other := broker("small", "{topics: [{name: b}], users: [bob]}")
	w.must(w.admin.Apply(w.Context(), client.ApplyConfigurationFromUnstructured(other), client.FieldOwner("bob")))
	w.must(w.admin.Get(w.Context(), client.ObjectKeyFromObject(small), small))
	if topics, _, _ := unstructured.NestedSlice(small.Object, "spec", "topics"); len(topics) != 2 {
		w.Errorf("topics: %v", topics)
	}

	kubectl := func(args ...string) (string, error) {
		cmd := exec.CommandContext(w.Context(), w.env.Kubectl, append([]string{"--kubeconfig", w.control().Kubeconfig, "--cache-dir", w.TempDir()}, args...)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("kubectl %v: %w: %s", args, err, out)
		}
		return string(out), err
	}
	for _, c := range []struct {
		args  string
		words []string
	}{
		{"get brk", []string{"SIZE", "READY", "APPLIED", "MESSAGE", "AGE", "small"}},
		{"get brk -o wide", []string{"URL", "COMMIT"}},
		{"get gitbind -n default", []string{"broker.example.net/small"}},
		{"get brokers --field-selector spec.mode=safe -o name", []string{"small"}},
		{"explain broker.spec.size", []string{"How many nodes.", "integer"}},
		{"explain broker.status.gitbind", []string{"How far this claim has come"}},
	} {
		// What the API server says of its APIs, and what they are like, follows what it serves.
		w.eventually("kubectl "+c.args, func() error {
			out, err := kubectl(strings.Fields(c.args)...)
			for _, words := range c.words {
				if err == nil && !strings.Contains(out, words) {
					err = fmt.Errorf("no %q in\n%s", words, out)
				}
			}
			return err
		})
	}
	// Who scales is not seen by what writes authors down, or says who may write.
	scale := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "autoscaling/v1", "kind": "Scale"}}
	if err := w.admin.SubResource("scale").Get(w.Context(), small, scale); !apierrors.IsNotFound(err) {
		w.Errorf("it can be scaled past the claim: %v", err)
	}
	w.eventually("no other version is served", func() error {
		out, err := kubectl("api-versions")
		if strings.Contains(out, "example.net/v1alpha1") {
			return errors.New("it is")
		}
		return err
	})
}
