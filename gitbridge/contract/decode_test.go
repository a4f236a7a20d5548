package contract

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const orders = `apiVersion: anynines.com/v1
kind: PostgresqlInstance
metadata:
  name: orders
  namespace: team-a
spec:
  service: a9s-postgresql13
  plan: postgresql-single-nano
`

func TestDecodeRefusesWithLineAndReason(t *testing.T) {
	edit := func(old, new string) string { return strings.Replace(orders, old, new, 1) }
	for _, tc := range []struct {
		name, data string
		mode       uint32
		line       int
		reason     string
	}{
		{name: "no YAML", data: "a: [1,\nb", line: 2, reason: "is not valid YAML: did not find expected"},
		{name: "tab", data: edit("  plan", "\tplan"), line: 7 /* where the parser began the value */, reason: "not valid YAML"},
		{name: "another kind", data: edit("PostgresqlInstance", "Pod"), line: 2, reason: `kind is "Pod"`},
		{name: "another group", data: edit("anynines.com/v1", "v1"), line: 1, reason: "another API"},
		{name: "no version", data: edit("anynines.com/v1", "anynines.com"), line: 1, reason: "another API"},
		{name: "version of another group", data: edit("anynines.com/v1", "example.com/v1"), line: 1, reason: "another API"},
		{name: "no apiVersion", data: edit("apiVersion: anynines.com/v1\n", ""), reason: "apiVersion is missing"},
		{name: "empty kind", data: edit("PostgresqlInstance", `""`), line: 2, reason: "kind is missing"},
		{name: "kind no string", data: edit("PostgresqlInstance", "1"), line: 2, reason: "kind is missing or no string"},
		{name: "another namespace", data: edit("team-a", "team-b"), line: 5, reason: `namespace is "team-b", but the path says "team-a"`},
		{name: "no namespace", data: edit("  namespace: team-a\n", ""), line: 3, reason: `namespace is ""`},
		{name: "another name", data: edit("orders", "other"), line: 4, reason: `name is "other"`},
		{name: "empty", data: " \n", reason: "to remove the service, remove the file"},
		{name: "comments only", data: "# gone\n", reason: "to remove the service, remove the file"},
		{name: "null", data: "null\n", line: 1, reason: "is not an object"},
		{name: "list", data: "- a\n", line: 1, reason: "is not an object"},
		{name: "two documents", data: orders + "---\n" + orders, line: 9, reason: "second document"},
		{name: "duplicate key", data: orders + "  plan: other\n", line: 9, reason: `"plan" twice`},
		{name: "alias", data: orders + "  a: &x [1]\n  b: *x\n", line: 9, reason: "anchor &x"},
		{name: "merge key", data: orders + "  <<: {a: 1}\n", line: 9, reason: "merge key"},
		{name: "tag", data: orders + "  a: !!binary aGk=\n", line: 9, reason: "tag !!binary"},
		{name: "custom tag", data: orders + "  a: !ruby/object {}\n", line: 9, reason: "tag !ruby/object"},
		{name: "not UTF-8", data: orders + "  a: \xff\n", line: 9, reason: "UTF-8"},
		{name: "byte order mark", data: "\ufeff" + orders, line: 1, reason: "byte order mark"},
		{name: "unknown field", data: orders + "data: {}\n", line: 9, reason: "data is not a field of a claim"},
		{name: "unknown metadata", data: edit("  name:", "  nam: x\n  name:"), line: 4, reason: "metadata.nam is not a field"},
		{name: "spec no object", data: edit("spec:\n  service: a9s-postgresql13\n  plan: postgresql-single-nano\n", "spec: 1\n"), line: 6, reason: "spec is no object"},
		{name: "label no string", data: edit("spec:", "  labels: {a: 1}\nspec:"), line: 6, reason: "put it in quotes"},
		{name: "symlink", data: "../other.yaml", mode: ModeSymlink, reason: "symbolic link"},
		{name: "executable", data: orders, mode: ModeExecutable, reason: "chmod=-x"},
		{name: "submodule", mode: ModeSubmodule, reason: "submodule"},
		{name: "too large", data: orders + "#" + strings.Repeat("x", MaxFileSize), reason: "has more than 1048576 bytes"},
		{name: "deep", data: orders + "  a: " + strings.Repeat("[", 500) + strings.Repeat("]", 500) + "\n", line: 9, reason: "nested deeper"},
		{name: "one level too deep", data: orders + "  a: " + nested(maxDepth-1) + "\n", line: 9, reason: "nested deeper than 64 levels"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Decode(File{Path: ordersKey.Path(), Mode: tc.mode, Data: []byte(tc.data)}, "PostgresqlInstance")
			var p *Problem
			if !errors.As(err, &p) {
				t.Fatalf("error %v is no Problem", err)
			}
			if strings.Contains(p.Reason, "line ") {
				t.Errorf("the line is said twice: %v", p)
			}
			if p.File != ordersKey.Path() || p.Line != tc.line || !strings.Contains(p.Reason, tc.reason) {
				t.Errorf("got %v; want line %d: %s", p, tc.line, tc.reason)
			}
		})
	}
}

// nested is a list within depth-1 others. In a field of spec, it is two levels deeper.
func nested(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }

func TestDecodeTakesTheLargestAndTheDeepestFile(t *testing.T) {
	for name, data := range map[string]string{
		"largest": orders + "#" + strings.Repeat("x", MaxFileSize-len(orders)-1),
		"deepest": orders + "  a: " + nested(maxDepth-2) + "\n",
	} {
		if _, err := Decode(File{Path: ordersKey.Path(), Mode: ModeRegular, Size: int64(len(data)), Data: []byte(data)}, "PostgresqlInstance"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The head of a file that was too large to be read.
	f := File{Path: ordersKey.Path(), Mode: ModeRegular, Size: MaxFileSize + 1, Data: []byte(orders)}
	if _, err := Decode(f, ""); err == nil || !strings.Contains(err.Error(), "has more than 1048576 bytes") {
		t.Errorf("got %v", err)
	}
}

func TestDecodeTakesAClaimWithoutASpec(t *testing.T) {
	head, _, _ := strings.Cut(orders, "spec:")
	want := &Claim{APIVersion: "anynines.com/v1", Kind: "PostgresqlInstance", Namespace: "team-a", Name: "orders", Spec: map[string]any{}}
	for _, spec := range []string{"", "spec:\n", "spec: null\n", "spec: {}\n"} {
		got, err := Decode(File{Path: ordersKey.Path(), Data: []byte(head + spec)}, "")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: -want +got:\n%s", spec, diff)
		}
	}
}

func TestDecodeTakesWhatKubectlGetGives(t *testing.T) {
	data := strings.Replace(orders, "  name: orders\n", "  name: orders\n  uid: x\n  resourceVersion: '1'\n  creationTimestamp: null\n  managedFields: []\n", 1) + "status: {phase: Ready}\n"
	c, err := Decode(File{Path: ordersKey.Path(), Data: []byte(data)}, "")
	if err != nil {
		t.Fatal(err)
	}
	plain, _ := Decode(File{Path: ordersKey.Path(), Data: []byte(orders)}, "")
	if !Equal(c, plain) {
		t.Error("server-set fields make a difference")
	}
}

func TestLineOf(t *testing.T) {
	data := []byte(orders + "  list:\n  - name: a\n  - name: b\n")
	for field, want := range map[string]int{
		"spec": 6, "spec.plan": 8, "spec.list[1].name": 11, "spec.list[1]": 11, "spec.missing.deeper": 6, "nothing": 0, "spec.list[7]": 9,
		"spec.list[0]": 10, "spec.list[2]": 9, "spec.list[-1]": 9, "spec.list[x]": 9, "spec[0]": 6, "spec.plan.deeper": 8, "spec.plan[0]": 8,
	} {
		if got := LineOf(data, field); got != want {
			t.Errorf("LineOf(%q) = %d, want %d", field, got, want)
		}
	}
}

func TestNoFieldHasALineInWhatIsNoObject(t *testing.T) {
	for _, data := range []string{"", "# gone\n", "a: [1,\nb", "null\n", "- spec\n", "spec\n"} {
		if got := LineOf([]byte(data), "spec.plan"); got != 0 {
			t.Errorf("LineOf(%q) = %d", data, got)
		}
	}
}

func TestAProblemSaysItsLineWhenItHasOne(t *testing.T) {
	for want, p := range map[string]Problem{
		"a.yaml:1: no":  {File: "a.yaml", Line: 1, Reason: "no"},
		"a.yaml:12: no": {File: "a.yaml", Line: 12, Reason: "no"},
		"a.yaml: no":    {File: "a.yaml", Reason: "no"},
	} {
		if got := p.Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(orders))
	f.Add([]byte("a: &a [*a]"))
	f.Add([]byte("? {a: b}\n: c"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Decode(File{Path: ordersKey.Path(), Data: data}, "")
		var p *Problem
		if err != nil {
			if !errors.As(err, &p) {
				t.Fatalf("error %v is no Problem", err)
			}
			return
		}
		out, err := Encode(c)
		if err != nil {
			t.Fatal(err)
		}
		back, err := Decode(File{Path: ordersKey.Path(), Data: out}, "")
		if err != nil || !Equal(c, back) {
			t.Fatalf("%v\n%s", err, out)
		}
	})
}

func TestNameIn(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		data, namespace, name string
		ok                    bool
	}{
		"a claim":          {"metadata: {name: orders, namespace: team-a}", "team-a", "orders", true},
		"no namespace":     {"metadata: {name: orders}", "", "orders", true},
		"no name":          {"metadata: {namespace: team-a}", "team-a", "", false},
		"a name like 1":    {"metadata: {name: 1}", "", "", false},
		"no metadata":      {"kind: A", "", "", false},
		"no object":        {"- a", "", "", false},
		"no YAML":          {"metadata: {", "", "", false},
		"what is expanded": {"a: &a {name: orders}\nmetadata: *a", "", "", false},
	} {
		namespace, in, ok := NameIn(File{Path: "archive/orders.yaml", Data: []byte(test.data)})
		if namespace != test.namespace || in != test.name || ok != test.ok {
			t.Errorf("%s: %q %q %v", name, namespace, in, ok)
		}
	}
}
