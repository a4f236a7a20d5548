package library_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/policies/evaluator"
	"gitbind.dev/policies/policytest"
	"gitbind.dev/test/admission"
)

// deletionProtection is judged by API servers only.
const deletionProtection = "deletion-protection"

// changes is how many of them each policy judges.
const changes = 600

// TestAVerdictIsThatOfAnAPIServer gives each policy changes at random, and a real API
// server the same policy and the same changes: verdict, words, reason and warnings are the
// same. Each policy is for an API of its own, and has two bindings: one denies in
// namespace team-a, the other warns in team-b.
func TestAVerdictIsThatOfAnAPIServer(t *testing.T) {
	t.Parallel()
	server := admission.Start(t)
	server.MakeNamespaces(t, "team-a", "team-b", "gitbind-system")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var all []*comparison
	var kinds, composites []schema.GroupVersionKind
	for i, name := range []string{"change-freeze", "immutable-fields", "naming", "no-downgrade", "plan-allow-list", "required-labels", deletionProtection} {
		all = append(all, newComparison(server, name, rand.New(rand.NewPCG(seed, uint64(i)))))
		kinds, composites = append(kinds, all[i].kind), append(composites, all[i].composite())
	}
	server.Serve(t, apiextensionsv1.NamespaceScoped, kinds...)
	server.Serve(t, apiextensionsv1.ClusterScoped, composites...)
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			if c.name == deletionProtection {
				c.deletes(t)
				return
			}
			c.run(t)
		})
	}
}

// comparison is of one policy.
type comparison struct {
	*admission.Server
	name   string
	kind   schema.GroupVersionKind
	random *rand.Rand
}

func newComparison(server *admission.Server, name string, random *rand.Rand) *comparison {
	return &comparison{server, name, schema.GroupVersionKind{Group: name + ".example.org", Version: "v1", Kind: "PostgresqlInstance"}, random}
}

// composite is the kind of what Crossplane makes of a claim, which is in no namespace.
func (c *comparison) composite() schema.GroupVersionKind {
	return c.kind.GroupVersion().WithKind("X" + c.kind.Kind)
}

// manifests are the policy with two bindings, and its parameters, for its own API.
func (c *comparison) manifests(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	var all []*unstructured.Unstructured
	for _, u := range c.read(t, "policy.yaml", "tests/params.yaml") {
		switch {
		case u.GetKind() == "ValidatingAdmissionPolicyBinding":
			all = append(all, bound(u, c.name, "team-a", "Deny"), bound(u, c.name+"-warns", "team-b", "Warn"))
		case u.GetKind() == "ConfigMap" && u.GetNamespace() == "team-a":
			other := u.DeepCopy()
			other.SetNamespace("team-b")
			all = append(all, u, other)
		default:
			all = append(all, u)
		}
	}
	return all
}

// read reads objects of the policy's files, for its own API.
func (c *comparison) read(t *testing.T, names ...string) (all []*unstructured.Unstructured) {
	t.Helper()
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(c.name, name))
		if err != nil {
			t.Fatal(err)
		}
		d := yaml.NewYAMLToJSONDecoder(strings.NewReader(strings.ReplaceAll(string(data), "anynines.com", c.kind.Group)))
		for {
			u := &unstructured.Unstructured{}
			if err := d.Decode(u); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			all = append(all, u)
		}
	}
	return all
}

// bound is a binding of another name for one namespace.
func bound(u *unstructured.Unstructured, name, namespace, action string) *unstructured.Unstructured {
	b := u.DeepCopy()
	b.SetName(name)
	spec := b.Object["spec"].(map[string]any)
	spec["validationActions"] = []any{action}
	spec["matchResources"] = map[string]any{"namespaceSelector": map[string]any{"matchLabels": map[string]any{"kubernetes.io/metadata.name": namespace}}}
	return b
}

func (c *comparison) run(t *testing.T) {
	manifests := c.manifests(t)
	set := compile(t, manifests)
	all := c.fixtures(t)
	for i := range changes {
		all = append(all, c.change(i))
	}
	for _, change := range all {
		if change.OldObject != nil {
			c.Make(t, change.OldObject.DeepCopy())
		}
	}
	for _, u := range manifests {
		c.Make(t, u.DeepCopy())
	}
	verdicts, counts := make([]evaluator.Verdict, len(all)), map[string]int{}
	for i, change := range all {
		v, err := set.Evaluate(t.Context(), change)
		if err != nil {
			t.Fatal(err)
		}
		verdicts[i] = v
		counts[kind(v)]++
	}
	t.Logf("%v", counts)
	for _, want := range []string{"allowed", "denied", "warned of"} {
		if counts[want] < 10 {
			t.Errorf("of %d changes only %d are %s: the comparison says little", len(all), counts[want], want)
		}
		// Policies begin to count some time after they were created.
		first := slices.IndexFunc(verdicts, func(v evaluator.Verdict) bool { return kind(v) == want })
		admission.Wait(t, "the API server judges by the policy", func() error {
			if diff := c.Compare(t.Context(), all[first], verdicts[first]); diff != "" {
				return errors.New(diff)
			}
			return nil
		})
	}
	var workers sync.WaitGroup
	for w := range 4 {
		workers.Go(func() {
			for i := w; i < len(all); i += 4 {
				if diff := c.Compare(t.Context(), all[i], verdicts[i]); diff != "" {
					t.Errorf("%s\n%s", diff, describe(all[i]))
				}
			}
		})
	}
	workers.Wait()
}

func compile(t *testing.T, manifests []*unstructured.Unstructured) *evaluator.Set {
	t.Helper()
	var files []evaluator.File
	for _, u := range manifests {
		data, err := json.Marshal(u)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, evaluator.File{Name: u.GetName(), Data: data})
	}
	m, err := evaluator.Parse(files...)
	if err != nil {
		t.Fatal(err)
	}
	set, err := evaluator.Compile(m)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func (c *comparison) resource() schema.GroupVersionResource {
	return c.kind.GroupVersion().WithResource("postgresqlinstances")
}

func (c *comparison) instance(namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(c.kind)
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

// fixtures are the cases of the policy's own tests. Each that changes a claim has one of
// its own.
func (c *comparison) fixtures(t *testing.T) (all []evaluator.Change) {
	t.Helper()
	suite, err := policytest.Read(files(t, c.name+"/*.yaml", c.name+"/tests/*.yaml")...)
	if err != nil {
		t.Fatal(err)
	}
	for i, test := range suite.Cases {
		for _, u := range []*unstructured.Unstructured{test.Object, test.OldObject} {
			if u == nil {
				continue
			}
			u.SetGroupVersionKind(c.kind)
			if u.GetNamespace() == "" {
				u.SetGroupVersionKind(c.composite())
			}
			if test.OldObject != nil {
				u.SetName(fmt.Sprintf("fixture-%d", i))
			}
		}
		all = append(all, test.Change())
	}
	return all
}

// change is one at random, of the claim with a number.
func (c *comparison) change(number int) evaluator.Change {
	namespace := pick(c.random, "team-a", "team-b")
	name := fmt.Sprintf("%s%s", letters(number), pick(c.random, "", "-dev", "-prod", "-test", "-dev-prod", "1-dev"))
	now := c.claim(namespace, name)
	change := evaluator.Change{Resource: c.resource(), Object: now}
	if c.random.IntN(3) > 0 {
		change.OldObject = c.claim(namespace, name)
		if c.random.IntN(4) == 0 {
			change.Object.Object["spec"] = change.OldObject.DeepCopy().Object["spec"]
			if change.Object.Object["spec"] == nil {
				delete(change.Object.Object, "spec")
			}
		}
	}
	return change
}

// claim is one with whatever a policy of the library looks at, or without.
func (c *comparison) claim(namespace, name string) *unstructured.Unstructured {
	u := c.instance(namespace, name)
	r := c.random
	if r.IntN(20) > 0 {
		spec := map[string]any{}
		maybe := func(field string, values ...any) {
			if v := pick(r, values...); v != nil {
				spec[field] = v
			}
		}
		if maybe("plan", " postgresql-single-nano", "", "other", nil, int64(7)); r.IntN(4) > 0 {
			maybe("plan", "postgresql-single-nano", "postgresql-single-small", "postgresql-single-big")
		}
		maybe("service", "a9s-postgresql13", "a9s-postgresql15", nil, []any{"a", int64(1)}, map[string]any{"a": 1.5})
		maybe("expose", "Internal", "", nil, true, int64(3), 3.5)
		u.Object["spec"] = spec
	}
	labels := map[string]string{}
	for _, label := range []string{"team", "cost-center", "other"} {
		if r.IntN(2) == 0 {
			labels[label] = pick(r, "", "a")
		}
	}
	if len(labels) > 0 || r.IntN(2) == 0 {
		u.SetLabels(labels)
	}
	return u
}

// letters names a number with letters alone.
func letters(number int) string {
	name := "n"
	for ; number > 0; number /= 26 {
		name += string(rune('a' + number%26))
	}
	return name
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

func kind(v evaluator.Verdict) string {
	switch {
	case !v.Allowed():
		return "denied"
	case len(v.Warnings) > 0:
		return "warned of"
	}
	return "allowed"
}

func describe(c evaluator.Change) string {
	text := "new: " + fmt.Sprint(c.Object.Object)
	if c.OldObject != nil {
		text += "\nold: " + fmt.Sprint(c.OldObject.Object)
	}
	return text
}

// deletes is of the policy that only API servers judge by.
func (c *comparison) deletes(t *testing.T) {
	manifests := c.read(t, "policy.yaml")
	if left := compile(t, manifests).AdmissionOnly(); !slices.Equal(left, []string{c.name}) {
		t.Errorf("left to API servers: %v", left)
	}
	for name, value := range map[string]string{"protected": "true", "off": "false"} {
		u := c.instance("team-a", name)
		u.SetLabels(map[string]string{"deletion-protection": value})
		c.Make(t, u)
	}
	c.Make(t, c.instance("team-a", "plain"))
	composite := c.instance("", "protected")
	composite.SetGroupVersionKind(c.composite())
	composite.SetLabels(map[string]string{"deletion-protection": "true"})
	c.Make(t, composite)
	for _, u := range manifests {
		c.Make(t, u)
	}
	admission.Wait(t, "what is protected stays", func() error {
		if err := c.Delete(t.Context(), c.instance("team-a", "protected"), client.DryRunAll); err == nil || !strings.Contains(err.Error(), "take that away first") {
			return fmt.Errorf("it says %w", err)
		}
		return nil
	})
	for _, u := range []*unstructured.Unstructured{c.instance("team-a", "off"), c.instance("team-a", "plain"), composite} {
		if err := c.Delete(t.Context(), u); err != nil {
			t.Error(err)
		}
	}
}
