package evaluator_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"

	"gitbind.dev/policies/evaluator"
	"gitbind.dev/test/admission"
)

// TestAnAPIServerSaysTheSame has a real API server do what TestEvaluate does, all of it at
// once: each case has a group, namespaces and names of its own. What goes to the audit log
// is not compared.
func TestAnAPIServerSaysTheSame(t *testing.T) {
	t.Parallel()
	server := admission.Start(t)
	all := evaluations()
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(name string) bool {
		// It is of an API that there is not.
		resource := all[name].what().Resource
		return resource != databases && resource != clusterDatabases
	})
	own := func(i int, text string) string {
		return strings.NewReplacer("example.org", fmt.Sprintf("c%d.example.org", i), "apiGroups: ['*']", fmt.Sprintf("apiGroups: [c%d.example.org]", i),
			"team-", fmt.Sprintf("team%d-", i), "name: p}", fmt.Sprintf("name: p%d}", i), "name: b}", fmt.Sprintf("name: b%d}", i),
			"policyName: p", fmt.Sprintf("policyName: p%d", i), "'p'", fmt.Sprintf("'p%d'", i), "'b'", fmt.Sprintf("'b%d'", i)).Replace(text)
	}
	// The last one is a marker's.
	marker := len(names)
	var kinds, wide []schema.GroupVersionKind
	for i := range marker + 1 {
		kinds = append(kinds, schema.GroupVersionKind{Group: own(i, "example.org"), Version: "v1", Kind: "Database"})
		server.MakeNamespaces(t, own(i, "team-a"), own(i, "team-b"))
	}
	for i, name := range names {
		if all[name].what().Resource == clusterDatabases {
			wide = append(wide, kinds[i].GroupVersion().WithKind("ClusterDatabase"))
		}
	}
	server.Serve(t, apiextensionsv1.NamespaceScoped, kinds...)
	server.Serve(t, apiextensionsv1.ClusterScoped, wide...)
	changes, verdicts := make([]evaluator.Change, len(names)), make([]evaluator.Verdict, len(names))
	var policies []*unstructured.Unstructured
	for i, name := range names {
		test := all[name]
		changes[i] = renamed(t, test.what(), func(text string) string { return own(i, text) })
		verdicts[i] = test.want
		for d := range verdicts[i].Denials {
			verdicts[i].Denials[d].Policy, verdicts[i].Denials[d].Binding = fmt.Sprintf("p%d", i), fmt.Sprintf("b%d", i)
		}
		for w, text := range verdicts[i].Warnings {
			verdicts[i].Warnings[w] = own(i, text)
		}
		if old := changes[i].OldObject; old != nil {
			server.Make(t, old.DeepCopy())
		}
		policies = append(policies, objects(t, own(i, manifests(test.spec, test.binding, test.more...)))...)
	}
	for _, u := range policies {
		server.Make(t, u)
	}
	// When the API server judges by the marker, it knows those before.
	for _, u := range objects(t, own(marker, manifests("validations: [{expression: 'false'}]", ""))) {
		server.Make(t, u)
	}
	probe := renamed(t, evaluation{}.what(), func(text string) string { return own(marker, text) })
	admission.Wait(t, "policies count", func() error {
		if server.Compare(t.Context(), probe, evaluator.Verdict{}) == "" {
			return errors.New("not yet")
		}
		return nil
	})
	for i, name := range names {
		t.Run(name, func(t *testing.T) {
			// Parameters are read on their own way.
			admission.Wait(t, "it says the same", func() error {
				if diff := server.Compare(t.Context(), changes[i], verdicts[i]); diff != "" {
					return errors.New(diff)
				}
				return nil
			})
		})
	}
}

// renamed is a change with other words in its objects.
func renamed(t *testing.T, c evaluator.Change, words func(string) string) evaluator.Change {
	t.Helper()
	for _, u := range []**unstructured.Unstructured{&c.Object, &c.OldObject} {
		if *u == nil {
			continue
		}
		data, err := json.Marshal((*u).Object)
		if err != nil {
			t.Fatal(err)
		}
		*u = &unstructured.Unstructured{}
		if err := (*u).UnmarshalJSON([]byte(words(string(data)))); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func objects(t *testing.T, text string) (all []*unstructured.Unstructured) {
	t.Helper()
	d := yaml.NewYAMLToJSONDecoder(strings.NewReader(text))
	for {
		u := &unstructured.Unstructured{}
		if err := d.Decode(u); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, u)
	}
}
