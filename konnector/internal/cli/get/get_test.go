package get

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/konnector/internal/cli/output"
	"gitbind.dev/konnector/internal/cli/terminal"
	"gitbind.dev/test/golden"
)

func fixture(t *testing.T) found {
	t.Helper()
	data, err := os.ReadFile("testdata/objects.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var objects struct {
		Connections []v1alpha1.Connection        `json:"connections"`
		Bindings    []v1alpha1.APIServiceBinding `json:"bindings"`
		Claims      []map[string]any             `json:"claims"`
	}
	if err := yaml.UnmarshalStrict(data, &objects); err != nil {
		t.Fatal(err)
	}
	f := found{connections: objects.Connections, bindings: objects.Bindings, offers: offerNames(objects.Bindings), now: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)}
	for _, c := range objects.Claims {
		f.claims = append(f.claims, claim{object: unstructured.Unstructured{Object: numbers(t, c)}, binding: "postgresqlinstances.anynines.com"})
	}
	return f
}

// numbers makes whole numbers what the API server's client makes of them.
func numbers(t *testing.T, c map[string]any) map[string]any {
	t.Helper()
	data, err := utiljson.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := utiljson.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestOutput(t *testing.T) {
	f := fixture(t)
	for name, write := range map[string]func(*bytes.Buffer) error{
		"table.txt": func(b *bytes.Buffer) error { return f.tables(terminal.Open(nil, b), false) },
		"wide.txt":  func(b *bytes.Buffer) error { return f.tables(terminal.Open(nil, b), true) },
		"names.txt": func(b *bytes.Buffer) error { return f.names(b) },
		"absent.txt": func(b *bytes.Buffer) error {
			absent := f
			absent.absent = "konnector not seen for 5m"
			return absent.tables(terminal.Open(nil, b), false)
		},
		"unbound.txt": func(b *bytes.Buffer) error {
			return found{connections: f.connections[1:]}.tables(terminal.Open(nil, b), false)
		},
		"list.yaml": func(b *bytes.Buffer) error {
			list, err := f.list()
			if err != nil {
				return err
			}
			return output.Data(b, output.YAML, list)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got bytes.Buffer
			if err := write(&got); err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, filepath.Join("testdata", name), got.Bytes())
		})
	}
}
