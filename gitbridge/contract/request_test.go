package contract

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"gitbind.dev/test/golden"
)

// TestEncodeRequestGolden: testdata/requests/<name>.yaml is the file on main.
func TestEncodeRequestGolden(t *testing.T) {
	for name, r := range map[string]Request{
		"plain": {Binding: binding, DeletionPolicy: Refuse},
		"full":  {Binding: binding, Template: "postgresql", DeletionPolicy: Orphan},
	} {
		got, err := EncodeRequest(r)
		if err != nil {
			t.Fatal(err)
		}
		golden.Compare(t, "testdata/requests/"+name+".yaml", got)
	}
}

func TestDecodeRequestIsTheInverseOfEncodeRequest(t *testing.T) {
	label := rapid.StringMatching(`[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?`)
	rapid.Check(t, func(t *rapid.T) {
		want := Request{
			Binding:        label.Draw(t, "plural") + "." + label.Draw(t, "group"),
			Template:       rapid.OneOf(rapid.Just(""), label, rapid.SampledFrom([]string{"null", "1", "1.0", "yes", "2026-11-20", "0x1f"})).Draw(t, "template"),
			DeletionPolicy: rapid.SampledFrom([]DeletionPolicy{Refuse, Orphan, Delete}).Draw(t, "policy"),
		}
		data, err := EncodeRequest(want)
		if err != nil {
			t.Fatal(err)
		}
		path := RequestPath(want.Binding)
		got, err := DecodeRequest(File{Path: path, Mode: ModeRegular, Data: data})
		if err != nil || got != want {
			t.Fatalf("%v %v, want %v\n%s", got, err, want, data)
		}
		if b, ok := ParseRequestPath(path); !ok || b != want.Binding {
			t.Fatalf("ParseRequestPath(%q) = %q, %v", path, b, ok)
		}
	})
}

const request = `apiVersion: gitbind.dev/v1alpha1
kind: APIServiceExportRequest
metadata:
  name: postgresqlinstances.anynines.com
spec:
  template: postgresql
  deletionPolicy: Delete
`

func TestDecodeRequestRefusesWithLineAndReason(t *testing.T) {
	edit := func(old, new string) string { return strings.Replace(request, old, new, 1) }
	for _, tc := range []struct {
		name, data, path string
		mode             uint32
		line             int
		reason           string
	}{
		{name: "another path", path: "bindings/nogroup/request.yaml", data: request, reason: "not the path of a request"},
		{name: "a claim's path", path: ordersKey.Path(), data: request, reason: "not the path of a request"},
		{name: "empty", data: "\n", reason: "is empty: to unbind the API, remove the file"},
		{name: "no object", data: "# soon\n", reason: "to unbind the API, remove the file"},
		{name: "list", data: "[]\n", line: 1, reason: "is not an object: want apiVersion, kind, metadata"},
		{name: "two documents", data: request + "---\n" + request, line: 8, reason: "second document: one request in a file"},
		{name: "duplicate key", data: request + "spec: {}\n", line: 8, reason: `"spec" twice`},
		{name: "alias", data: edit("postgresql\n", "&a postgresql\n"), line: 6, reason: "anchor &a"},
		{name: "symlink", data: "../x", mode: ModeSymlink, reason: "symbolic link"},
		{name: "another version", data: edit("v1alpha1", "v2"), line: 1, reason: `apiVersion is "gitbind.dev/v2": want gitbind.dev/v1alpha1`},
		{name: "another kind", data: edit("APIServiceExportRequest", "APIServiceBinding"), line: 2, reason: `kind is "APIServiceBinding": want APIServiceExportRequest`},
		{name: "no metadata", data: "apiVersion: gitbind.dev/v1alpha1\nkind: APIServiceExportRequest\n", reason: "metadata is missing"},
		{name: "another name", data: edit("postgresqlinstances", "backups"), line: 4, reason: `metadata.name is "backups.anynines.com", but the path says "postgresqlinstances.anynines.com"`},
		{name: "namespace", data: edit("spec:", "  namespace: team-a\nspec:"), line: 5, reason: "metadata.namespace is not a field of a request"},
		{name: "unknown field", data: edit("  template", "  offer"), line: 6, reason: "spec.offer is not a field of a request"},
		{name: "spec no object", data: "apiVersion: gitbind.dev/v1alpha1\nkind: APIServiceExportRequest\nmetadata: {name: postgresqlinstances.anynines.com}\nspec: 1\n", line: 4, reason: "spec is no object"},
		{name: "template no name", data: edit("template: postgresql", "template: A B"), line: 6, reason: `spec.template is "A B": want the name of an offer`},
		{name: "template no string", data: edit("template: postgresql", "template: 1"), line: 6, reason: `spec.template is "1": want the name of an offer`},
		{name: "no such policy", data: edit("Delete", "delete"), line: 7, reason: `spec.deletionPolicy is "delete": want Refuse, Orphan or Delete`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.path == "" {
				tc.path = RequestPath(binding)
			}
			_, err := DecodeRequest(File{Path: tc.path, Mode: tc.mode, Data: []byte(tc.data)})
			var p *Problem
			if !errors.As(err, &p) {
				t.Fatalf("error %v is no Problem", err)
			}
			if p.File != tc.path || p.Line != tc.line || !strings.Contains(p.Reason, tc.reason) {
				t.Errorf("got %v; want line %d: %s", p, tc.line, tc.reason)
			}
		})
	}
}

func TestDecodeRequestTakesWhatKubectlGetGives(t *testing.T) {
	data := strings.Replace(request, "metadata:\n", "metadata:\n  uid: x\n  labels: {a: b}\n", 1) + "status: {}\n"
	for data, want := range map[string]Request{
		data: {binding, "postgresql", Delete},
		strings.NewReplacer("postgresql\n", "null\n", "Delete\n", "null\n").Replace(data): {binding, "", Refuse},
	} {
		got, err := DecodeRequest(File{Path: RequestPath(binding), Data: []byte(data)})
		if err != nil || got != want {
			t.Errorf("got %v, %v, want %v", got, err, want)
		}
	}
}

func FuzzDecodeRequest(f *testing.F) {
	f.Add([]byte(request))
	f.Add([]byte("a: &a [*a]"))
	f.Add([]byte("spec: {template: null}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := DecodeRequest(File{Path: RequestPath(binding), Data: data})
		var p *Problem
		if err != nil {
			if !errors.As(err, &p) {
				t.Fatalf("error %v is no Problem", err)
			}
			return
		}
		out, err := EncodeRequest(r)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := DecodeRequest(File{Path: RequestPath(binding), Data: out}); err != nil || back != r {
			t.Fatalf("%v %v\n%s", back, err, out)
		}
	})
}

func TestARequestIsAnsweredAtItsOwnPath(t *testing.T) {
	path := RequestPath(binding)
	if got := StatusPath(path); got != path || IsReserved(path) {
		t.Errorf("StatusPath(%q) = %q, reserved %v", path, got, IsReserved(path))
	}
	if got := StatusPath("bindings/NoGroup/request.yaml"); got != "refused/bindings/NoGroup/request.yaml" {
		t.Errorf("got %q", got)
	}
	data, err := EncodeStatus(&Status{Metadata: StatusMeta{Name: binding}, Result: Applied, Answers: Answers{Commit: "c"}})
	if err != nil || strings.Contains(string(data), "namespace") {
		t.Errorf("%v\n%s", err, data)
	}
}
