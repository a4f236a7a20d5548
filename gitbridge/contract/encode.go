package contract

import (
	"bytes"
	"fmt"
	"slices"

	yaml "go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/json"
)

// Encode writes a claim in its one canonical form: a manifest that
// `kubectl apply -f` takes, keys in fixed order, indented by two spaces.
// Equal claims give equal bytes.
func Encode(c *Claim) ([]byte, error) {
	meta := object{{"name", c.Name}, {"namespace", c.Namespace}}
	if len(c.Labels) > 0 {
		meta = append(meta, field{"labels", c.Labels})
	}
	if len(c.Annotations) > 0 {
		meta = append(meta, field{"annotations", c.Annotations})
	}
	b, err := marshal(object{
		{"apiVersion", c.APIVersion},
		{"kind", c.Kind},
		{"metadata", meta},
		{"spec", orEmpty(c.Spec)},
	})
	if err != nil {
		return nil, fmt.Errorf("encode %s/%s: %w", c.Namespace, c.Name, err)
	}
	return b, nil
}

// object is a mapping that keeps the order of its fields.
type object []field

type field struct {
	key   string
	value any
}

// with adds a field of text, unless it is empty.
func (o object) with(key, value string) object {
	if value == "" {
		return o
	}
	return append(o, field{key, value})
}

func marshal(v any) ([]byte, error) {
	n, err := node(v)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(n); err != nil {
		return nil, err
	}
	if err := e.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// node builds the tree itself rather than leaving it to the encoder, so that
// every string which any YAML reader could take for something else is quoted.
func node(v any) (*yaml.Node, error) {
	switch v := v.(type) {
	case string:
		return text(v), nil
	case object:
		n := &yaml.Node{Kind: yaml.MappingNode}
		for _, f := range v {
			e, err := node(f.value)
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, text(f.key), e)
		}
		return n, nil
	case map[string]string:
		n := &yaml.Node{Kind: yaml.MappingNode}
		for _, k := range sorted(v) {
			n.Content = append(n.Content, text(k), text(v[k]))
		}
		return n, nil
	case map[string]any:
		n := &yaml.Node{Kind: yaml.MappingNode}
		if len(v) == 0 {
			n.Style = yaml.FlowStyle
		}
		for _, k := range sorted(v) {
			e, err := node(v[k])
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, text(k), e)
		}
		return n, nil
	case []any:
		n := &yaml.Node{Kind: yaml.SequenceNode}
		if len(v) == 0 {
			n.Style = yaml.FlowStyle
		}
		for _, e := range v {
			c, err := node(e)
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, c)
		}
		return n, nil
	default:
		n := &yaml.Node{}
		return n, n.Encode(canonical(v))
	}
}

func sorted[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// MarshalYAML writes any object that has a JSON form, keys sorted. Equal objects give
// equal bytes; with sigs.k8s.io/yaml, whose order of keys like "1R", "-5" and "8.5a" is
// a cycle, they need not. An error names no value.
func MarshalYAML(v any) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("%T has no JSON form", v)
	}
	var plain any
	if err := json.Unmarshal(raw, &plain); err != nil {
		return nil, fmt.Errorf("%T has no JSON form that can be read", v)
	}
	return marshal(plain)
}
