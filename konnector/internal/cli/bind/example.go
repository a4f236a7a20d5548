package bind

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"gitbind.dev/gitbridge/api/v1alpha1"
)

// printExample shows the smallest claim that the API's schema takes.
func (in Input) printExample(ctx context.Context, name string) error {
	var crd apiextensionsv1.CustomResourceDefinition
	if err := in.Cluster.Get(ctx, client.ObjectKey{Name: name}, &crd); err != nil {
		return fmt.Errorf("read the API %s: %w", name, err)
	}
	if err := writeExample(in.Terminal.Out, &crd, in.Cluster.Namespace); err != nil {
		return err
	}
	var b v1alpha1.APIServiceBinding
	if err := in.Cluster.Get(ctx, client.ObjectKey{Name: name}, &b); err != nil {
		return fmt.Errorf("read binding %s: %w", name, err)
	}
	return writeInputs(in.Terminal.Out, b.Status.Inputs, in.Cluster.Namespace)
}

// writeInputs says what goes to the control plane with claims, and who lets it: the konnector
// may read nothing of it by itself.
func writeInputs(w io.Writer, inputs []v1alpha1.PermissionClaim, namespace string) error {
	if len(inputs) == 0 {
		return nil
	}
	var all []string
	for _, c := range inputs {
		how := "by labels"
		if of := cmp.Or(c.Name, c.Field); of != "" {
			how = of
		}
		all = append(all, fmt.Sprintf("%ss (%s)", c.Resource.Kind(), how))
	}
	_, err := fmt.Fprintf(w, "\nWith a claim go to the control plane, encrypted, of its namespace: %s. The konnector may not read them until who administers the namespace lets it read all Secrets and ConfigMaps there:\n\nkubectl create rolebinding %[2]s -n %[3]s --clusterrole=%[2]s --serviceaccount=%[4]s:konnector\n",
		strings.Join(all, ", "), v1alpha1.KonnectorInputs, namespace, v1alpha1.SystemNamespace)
	return err
}

func writeExample(w io.Writer, crd *apiextensionsv1.CustomResourceDefinition, namespace string) error {
	i := slices.IndexFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Served })
	if i < 0 {
		return nil
	}
	version := crd.Spec.Versions[i]
	fmt.Fprintf(w, "\n%s can be ordered with kubectl now, for example:\n\nkubectl apply -f - <<'EOF'\n", crd.Spec.Names.Kind)
	// Line by line, because a person reads it: apiVersion first.
	fmt.Fprintf(w, "apiVersion: %s/%s\nkind: %s\nmetadata:\n  name: example\n  namespace: %s\n", crd.Spec.Group, version.Name, crd.Spec.Names.Kind, namespace)
	if version.Schema != nil && version.Schema.OpenAPIV3Schema != nil {
		spec := version.Schema.OpenAPIV3Schema.Properties["spec"]
		data, err := yaml.Marshal(map[string]any{"spec": example("spec", spec)})
		if err != nil {
			return fmt.Errorf("print an example: %w", err)
		}
		if _, err := w.Write(data); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "EOF\n\nAll fields: kubectl explain %s.spec\n", strings.ToLower(crd.Spec.Names.Plural+"."+crd.Spec.Group))
	return err
}

// example is a value that a schema takes: required fields only, with the
// schema's own default, example or first choice.
func example(field string, s apiextensionsv1.JSONSchemaProps) any {
	for _, given := range append([]*apiextensionsv1.JSON{s.Default, s.Example}, first(s.Enum)) {
		var v any
		if given != nil && json.Unmarshal(given.Raw, &v) == nil {
			return v
		}
	}
	switch s.Type {
	case "object":
		out := map[string]any{}
		for _, name := range s.Required {
			out[name] = example(name, s.Properties[name])
		}
		return out
	case "array":
		return []any{}
	case "boolean":
		return false
	case "integer", "number":
		if s.Minimum != nil {
			return *s.Minimum
		}
		return 1
	}
	return "<" + field + ">"
}

func first(enum []apiextensionsv1.JSON) *apiextensionsv1.JSON {
	if len(enum) == 0 {
		return nil
	}
	return &enum[0]
}
