package app_test

import (
	"fmt"
	"os"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gitbind.dev/gitbridge/contract"
)

// entry is a file of a tree that no ordinary tool would make.
type entry struct {
	mode, path, content string
}

// commitRaw puts files on main, as git's own plumbing can.
func (t *tenant) commitRaw(entries ...entry) string {
	t.Helper()
	index := t.TempDir() + "/index"
	git := func(stdin string, args ...string) string {
		t.Helper()
		cmd := t.host.command(t.id, args...)
		cmd.Env = append(cmd.Env, "GIT_INDEX_FILE="+index)
		cmd.Stdin = strings.NewReader(stdin)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		t.must(err)
		return strings.TrimSpace(string(out))
	}
	git("", "read-tree", "main")
	var info strings.Builder
	known := map[string]string{}
	for _, e := range entries {
		hash := e.content
		if e.mode != "160000" {
			if known[e.content] == "" {
				known[e.content] = git(e.content, "hash-object", "-w", "--stdin")
			}
			hash = known[e.content]
		}
		fmt.Fprintf(&info, "%s %s\t%s\x00", e.mode, hash, e.path)
	}
	git(info.String(), "update-index", "-z", "--index-info")
	tree := git("", "write-tree")
	commit := git("", "commit-tree", "-p", "main", "-m", "Hostile", tree)
	git("", "update-ref", "refs/heads/main", commit)
	t.host.tell(t.id)
	return commit
}

// commitTree puts a tree on main that has a file under a name which git's own
// index refuses.
func (t *tenant) commitTree(folders []string, name string) {
	t.Helper()
	git := func(stdin string, args ...string) string {
		t.Helper()
		cmd := t.host.command(t.id, args...)
		cmd.Stdin = strings.NewReader(stdin)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		t.must(err)
		return strings.TrimSpace(string(out))
	}
	blob := git("x", "hash-object", "-w", "--stdin")
	kind, id := "100644 blob", blob
	for _, component := range append([]string{name}, folders...) {
		id = git(fmt.Sprintf("%s %s\t%s\x00", kind, id, component), "mktree", "-z")
		kind = "040000 tree"
	}
	// Beside what is there.
	var lines strings.Builder
	lines.WriteString(kind + " " + id + "\t" + "bindings\x00")
	for line := range strings.SplitSeq(git("", "ls-tree", "main"), "\n") {
		if !strings.HasSuffix(line, "\tbindings") {
			lines.WriteString(line + "\x00")
		}
	}
	root := git(lines.String(), "mktree", "-z")
	git("", "update-ref", "refs/heads/main", git("", "commit-tree", "-p", "main", "-m", "Hostile", root))
	t.host.tell(t.id)
}

func testBadInput(w *world, apis apis) {
	t := w.tenant(apis.postgresql)
	at := func(name string) string { return path(apis.postgresql, "team-a", name) }
	good := at("good")
	folder := contract.ClaimsPath(apis.postgresql.BindingName())
	const regular = "100644"
	tests := []struct {
		entry
		line  int
		words string
	}{
		{entry{regular, at("no-yaml"), "plan: [small\nservice: }"}, 1, "is not valid YAML"},
		{entry{regular, at("other-kind"), strings.Replace(manifest(at("other-kind"), nano), "PostgresqlInstance", "Secret", 1)}, 2, `kind is "Secret"`},
		{entry{regular, at("other-group"), strings.Replace(manifest(at("other-group"), nano), "anynines.com/v1", "v1", 1)}, 1, "another API"},
		{entry{regular, at("other-version"), strings.Replace(manifest(at("other-version"), nano), "anynines.com/v1", "anynines.com/v2", 1)}, 1, "bound as"},
		{entry{regular, at("other-namespace"), strings.Replace(manifest(at("other-namespace"), nano), "namespace: team-a", "namespace: kube-system", 1)}, 5, "the path says"},
		{entry{regular, at("other-name"), strings.Replace(manifest(at("other-name"), nano), "name: other-name", "name: orders", 1)}, 4, "the path says"},
		{entry{regular, at("too-large"), manifest(at("too-large"), nano) + strings.Repeat("# large\n", 140_000)}, 0, "bytes"},
		{entry{"120000", at("symlink"), "../../../../../etc/passwd"}, 0, "symbolic link"},
		{entry{"100755", at("executable"), manifest(at("executable"), nano)}, 0, "executable"},
		{entry{"160000", at("submodule"), w.host.head(t.id, "main")}, 0, "submodule"},
		{entry{regular, at("two-documents"), manifest(at("two-documents"), nano) + "---\n" + manifest(at("two-documents"), nano)}, 9, "second document"},
		{entry{regular, at("duplicate-key"), manifest(at("duplicate-key"), nano+"\n  plan: postgresql-replica-big")}, 9, "twice"},
		{entry{regular, at("alias"), manifest(at("alias"), "  service: &s a9s-postgresql13\n  plan: *s")}, 7, "anchor"},
		{entry{regular, at("empty"), ""}, 0, "is empty"},
		{entry{regular, at("binary"), "\xff\xfe\x00"}, 1, "UTF-8"},
		{entry{regular, at("deep"), manifest(at("deep"), "  parameters: "+strings.Repeat("[", 100)+strings.Repeat("]", 100))}, 7, "nested"},
		{entry{regular, at("unknown-field"), manifest(at("unknown-field"), nano+"\n  pan: small")}, 9, "spec.pan is not a field"},
		{entry{regular, at("wrong-type"), manifest(at("wrong-type"), nano+"\n  parameters:\n    maxConnections: many")}, 10, "integer"},
		{entry{regular, at("wrong-value"), manifest(at("wrong-value"), "  service: a9s-postgresql13\n  plan: huge")}, 8, "Unsupported value"},
		{entry{regular, at("missing-field"), manifest(at("missing-field"), "  plan: postgresql-single-nano")}, 6, "spec.service: Required value"},
		{entry{regular, at("Good"), manifest(good, nano)}, 0, "upper and lower case"},
		{entry{regular, at(strings.Repeat("x", 201)), "x"}, 0, "201 characters"},
		{entry{regular, folder + "/orders.yaml", manifest(good, nano)}, 0, "not the path of a claim"},
		{entry{regular, folder + "/team-a/sub/orders.yaml", manifest(good, nano)}, 0, "not the path of a claim"},
		{entry{regular, folder + "/team-a/orders.yml", manifest(good, nano)}, 0, "not the path of a claim"},
		{entry{regular, "bindings/secrets./claims/team-a/x.yaml", "x"}, 0, "want <plural>.<group>"},
		{entry{regular, "bindings/stray", "x"}, 0, "not the path of a claim"},
		{entry{regular, path(apis.caches, "team-a", "x"), manifest(path(apis.caches, "team-a", "x"), "  size: small")}, 0, "caches.example.org is not bound"},
	}
	entries := []entry{{regular, good, manifest(good, nano)}}
	for _, test := range tests {
		entries = append(entries, test.entry)
	}
	t.commitRaw(entries...)
	t.wantAnswer(good, contract.Applied)
	for _, test := range tests {
		s := t.wantAnswer(test.path, contract.Invalid, test.words)
		if s.Problem == nil || s.Problem.File != test.path || s.Problem.Line != test.line {
			w.Errorf("%s: problem %+v, want it in line %d", test.path, s.Problem, test.line)
		}
		if key, err := contract.ParsePath(test.path); err == nil && kinds[key.Binding] != "" && t.object(test.path) != nil {
			w.Errorf("%s: was applied", test.path)
		}
	}
	t.wantObserved()
	if o := t.object(good); o == nil {
		w.Error("the good file was not applied")
	}

	// What is refused is forgotten when it goes.
	t.push("Clean up", map[string]string{"bindings/stray": ""})
	t.eventually("the answer goes too", func() error {
		if s := t.answer("bindings/stray"); s != nil {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})

	for _, name := range []string{"..", ".git", "a\nb", "back\\slash", "\xff"} {
		t.commitTree([]string{"claims", apis.postgresql.BindingName()}, name)
		strange := "bindings/" + apis.postgresql.BindingName() + "/claims/" + name
		s := t.wantAnswer(strange, contract.Invalid)
		if s.Problem.File != strange && name != "\xff" {
			w.Errorf("%q: problem %+v", name, s.Problem)
		}
	}
	w.host.check(w, t.id)
}

func testBadChange(w *world, apis apis) {
	t := w.tenant(apis.postgresql)
	orders, other := path(apis.postgresql, "team-a", "orders"), path(apis.postgresql, "team-a", "other")
	t.push("Order", map[string]string{orders: manifest(orders, small), other: manifest(other, nano)})
	t.wantAnswer(orders, contract.Applied)
	t.wantAnswer(other, contract.Applied)
	before := t.object(orders)
	for _, bad := range []struct {
		content string
		line    int
		words   string
	}{
		{manifest(orders, nano), 8, "plan cannot become smaller"},
		{manifest(orders, "  plan: postgresql-single-small\n  service: a9s-postgresql14"), 8, "service cannot be changed"},
		{"", 0, "is empty"},
		{"# nothing but a comment\n", 0, "holds no object"},
		{"spec: [", 1, "is not valid YAML"},
	} {
		t.commitRaw(entry{"100644", orders, bad.content})
		s := t.wantAnswer(orders, contract.Invalid, bad.words)
		if s.Problem.Line != bad.line || s.Object == "" {
			w.Errorf("answer %+v with problem %+v, want line %d", s, s.Problem, bad.line)
		}
		if after := t.object(orders); after.GetResourceVersion() != before.GetResourceVersion() {
			w.Errorf("%q changed the object", bad.words)
		}
		t.wantObserved()
	}
	// The API server is not asked again for each event on the object.
	t.setStatus(orders, map[string]any{"managed": map[string]any{"clusterStatus": "Running"}})
	t.eventually("status goes on beside the refusal", func() error {
		s := t.answer(orders)
		got, _, _ := unstructured.NestedString(s.Status, "managed", "clusterStatus")
		return is(string(s.Result)+got, "InvalidRunning")
	})
	t.push("Mend", map[string]string{orders: manifest(orders, small)})
	t.wantAnswer(orders, contract.Applied)
	if s := t.answer(other); s.Result != contract.Applied {
		w.Errorf("the other claim: %+v", s)
	}
}

func testMachinery(w *world, apis apis) {
	t := w.tenant(apis.postgresql)
	orders := path(apis.postgresql, "team-a", "orders")
	file := manifest(orders, nano+`
  resourceRef: {apiVersion: anynines.com/v1, kind: XPostgresqlInstance, name: somebody-elses}
  compositeDeletePolicy: Background
  writeConnectionSecretToRef: {name: x}
  compositionRevisionRef: {name: old}
  compositionRef: {name: a8s-postgresql}`)
	file = strings.Replace(file, "metadata:\n", `metadata:
  labels: {team: a, app.kubernetes.io/instance: argo, gitbind.dev/cluster: taaaaaaaaa}
  annotations: {crossplane.io/external-name: theirs, crossplane.io/paused: "true", note: hi}
`, 1)
	t.push("Order", map[string]string{orders: file})
	t.wantAnswer(orders, contract.Applied, "left out", "spec.resourceRef", "spec.compositeDeletePolicy")
	u := t.object(orders)
	for _, field := range []string{"resourceRef", "compositionRevisionRef"} {
		if _, ok, _ := unstructured.NestedMap(u.Object, "spec", field); ok {
			w.Errorf("spec.%s passed", field)
		}
	}
	if got, _, _ := unstructured.NestedString(u.Object, "spec", "compositeDeletePolicy"); got != "Foreground" {
		w.Errorf("compositeDeletePolicy is %s", got)
	}
	if got, _, _ := unstructured.NestedString(u.Object, "spec", "writeConnectionSecretToRef", "name"); got != "x" {
		w.Errorf("writeConnectionSecretToRef is %q", got)
	}
	if got, _, _ := unstructured.NestedString(u.Object, "spec", "compositionRef", "name"); got != "a8s-postgresql" {
		w.Errorf("compositionRef is %q", got)
	}
	l, a := u.GetLabels(), u.GetAnnotations()
	if len(l) != 4 || l["team"] != "a" || l["gitbind.dev/cluster"] != t.id || len(a) != 4 || a["note"] != "hi" {
		w.Errorf("labels %v, annotations %v", l, a)
	}
}

func testPolicy(w *world, apis apis) {
	t := w.tenant(apis.postgresql)
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: t.id},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
				Rule:       admissionv1.Rule{APIGroups: []string{"anynines.com"}, APIVersions: []string{"*"}, Resources: []string{"postgresqlinstances"}},
			}}}},
			MatchConditions: []admissionv1.MatchCondition{{Name: "tenant", Expression: fmt.Sprintf("object.metadata.namespace.startsWith('gb-%s-')", t.id)}},
			Validations:     []admissionv1.Validation{{Expression: "!object.spec.plan.endsWith('-nano')", Message: "nano is not for production"}},
		},
	}
	w.must(w.admin.Create(w.Context(), policy))
	w.must(w.admin.Create(w.Context(), &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: t.id},
		Spec:       admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: t.id, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}},
	}))
	names := 0
	t.eventually("the policy is in force", func() error {
		names++
		probe := path(apis.postgresql, "team-a", fmt.Sprintf("probe-%d", names))
		t.push("Probe", map[string]string{probe: manifest(probe, nano)})
		var s *contract.Status
		t.eventually("an answer", func() error {
			if s = t.answer(probe); s == nil {
				return fmt.Errorf("none")
			}
			return nil
		})
		if s.Result != contract.Denied || !strings.Contains(s.Message, "nano is not for production") || s.Problem == nil {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	orders := path(apis.postgresql, "team-a", "orders")
	t.push("Order", map[string]string{orders: manifest(orders, small)})
	t.wantAnswer(orders, contract.Applied)
}
