package contract

import (
	"encoding/json"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v3"
)

// serverSet are the fields that servers write. A file that somebody saved with
// `kubectl get -o yaml` has them; they say nothing.
var serverSet = map[string]bool{
	"uid": true, "resourceVersion": true, "generation": true, "creationTimestamp": true,
	"deletionTimestamp": true, "deletionGracePeriodSeconds": true, "managedFields": true,
	"selfLink": true, "ownerReferences": true, "finalizers": true,
}

// preserveInts makes whole numbers int64, as Kubernetes' own decoder does.
func preserveInts(d *json.Decoder) *json.Decoder {
	d.UseNumber()
	return d
}

// claim checks a document against its path and takes from it what it says.
func (d decoder) claim(key Key, kind string, doc *yaml.Node, object map[string]any) (*Claim, error) {
	if err := d.known(doc, "", map[string]bool{"apiVersion": true, "kind": true, "metadata": true, "spec": true, "status": true}); err != nil {
		return nil, err
	}
	at := func(path string) int { return lineOf(doc, path) }
	c := &Claim{Namespace: key.Namespace, Name: key.Name}
	var ok bool
	if c.APIVersion, ok = object["apiVersion"].(string); !ok {
		return nil, d.problem(at("apiVersion"), "apiVersion is missing or no string")
	}
	if group, _, found := strings.Cut(c.APIVersion, "/"); !found || group != key.Group() {
		return nil, d.problem(at("apiVersion"), "apiVersion %q is of another API than the folder %q", c.APIVersion, key.Binding)
	}
	if c.Kind, ok = object["kind"].(string); !ok || c.Kind == "" {
		return nil, d.problem(at("kind"), "kind is missing or no string")
	}
	if kind != "" && c.Kind != kind {
		return nil, d.problem(at("kind"), "kind is %q, but claims of %q are of kind %q", c.Kind, key.Binding, kind)
	}
	meta, ok := object["metadata"].(map[string]any)
	if !ok {
		return nil, d.problem(at("metadata"), "metadata is missing or no object")
	}
	if err := d.metadata(c, key, doc, meta); err != nil {
		return nil, err
	}
	switch spec := object["spec"].(type) {
	case nil:
		c.Spec = map[string]any{}
	case map[string]any:
		c.Spec = canonical(spec).(map[string]any)
	default:
		return nil, d.problem(at("spec"), "spec is no object")
	}
	return c, nil
}

func (d decoder) metadata(c *Claim, key Key, doc *yaml.Node, meta map[string]any) error {
	allowed := map[string]bool{"name": true, "namespace": true, "labels": true, "annotations": true}
	for k := range serverSet {
		allowed[k] = true
	}
	if err := d.known(child(doc, "metadata"), "metadata.", allowed); err != nil {
		return err
	}
	for _, f := range []struct{ field, want string }{{"name", key.Name}, {"namespace", key.Namespace}} {
		if got, _ := meta[f.field].(string); got != f.want {
			return d.problem(lineOf(doc, "metadata."+f.field), "metadata.%s is %q, but the path says %q", f.field, got, f.want)
		}
	}
	var err error
	if c.Labels, err = d.strings(doc, meta, "labels"); err != nil {
		return err
	}
	c.Annotations, err = d.strings(doc, meta, "annotations")
	return err
}

func (d decoder) strings(doc *yaml.Node, meta map[string]any, name string) (map[string]string, error) {
	path := "metadata." + name
	if meta[name] == nil {
		return nil, nil
	}
	m, ok := meta[name].(map[string]any)
	if !ok {
		return nil, d.problem(lineOf(doc, path), "%s is no object", path)
	}
	out := map[string]string{}
	for k, v := range m {
		s, ok := v.(string)
		if !ok {
			return nil, d.problem(lineOf(doc, path), "%s: the value of %q is no string: put it in quotes", path, k)
		}
		out[k] = s
	}
	return filter(out, MayTravel), nil
}

func (d decoder) known(n *yaml.Node, prefix string, allowed map[string]bool) error {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i < len(n.Content); i += 2 {
		if k := n.Content[i]; !allowed[k.Value] {
			return d.problem(k.Line, "%s%s is not a field of a %s", prefix, k.Value, d.noun)
		}
	}
	return nil
}

// LineOf finds the line of a field in a claim file, from 1, or of the nearest
// parent that the file has; 0 when there is none. Fields are written as the API
// server writes them: "spec.parameters.maxConnections", "spec.list[2].name".
func LineOf(data []byte, field string) int {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil || len(doc.Content) == 0 {
		return 0
	}
	return lineOf(doc.Content[0], field)
}

func lineOf(n *yaml.Node, field string) int {
	found := 0
	for _, part := range strings.Split(strings.ReplaceAll(field, "[", ".["), ".") {
		key, value := step(n, part)
		if value == nil {
			break
		}
		n, found = value, key.Line
	}
	return found
}

// step goes from a node to the child that part names, "key" or "[index]".
func step(n *yaml.Node, part string) (key, value *yaml.Node) {
	if index, ok := strings.CutPrefix(part, "["); ok {
		i, err := strconv.Atoi(strings.TrimSuffix(index, "]"))
		if err != nil || n.Kind != yaml.SequenceNode || i < 0 || i >= len(n.Content) {
			return nil, nil
		}
		return n.Content[i], n.Content[i]
	}
	if n.Kind != yaml.MappingNode {
		return nil, nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == part {
			return n.Content[i], n.Content[i+1]
		}
	}
	return nil, nil
}

func child(n *yaml.Node, name string) *yaml.Node {
	_, value := step(n, name)
	return value
}
