package get

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"gitbind.dev/gitbridge/api/v1alpha1"
)

// list is all of it as kubectl prints several kinds: one List.
func (f found) list() (map[string]any, error) {
	items := []any{}
	add := func(kind string, object any) error {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return fmt.Errorf("print %s: %w", kind, err)
		}
		content["apiVersion"], content["kind"] = v1alpha1.GroupVersion.String(), kind
		items = append(items, content)
		return nil
	}
	for i := range f.connections {
		if err := add("Connection", &f.connections[i]); err != nil {
			return nil, err
		}
	}
	for i := range f.bindings {
		if err := add("APIServiceBinding", &f.bindings[i]); err != nil {
			return nil, err
		}
	}
	for _, c := range f.claims {
		items = append(items, c.object.Object)
	}
	return map[string]any{"apiVersion": "v1", "kind": "List", "items": items}, nil
}

func (f found) names(w io.Writer) error {
	names := slices.Concat(f.connectionList().Names, f.bindingList().Names, f.claimList(false).Names)
	_, err := io.WriteString(w, strings.Join(append(names, ""), "\n"))
	return err
}
