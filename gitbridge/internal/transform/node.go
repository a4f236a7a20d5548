package transform

import (
	"fmt"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/util/json"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
)

// kustomize works on YAML nodes, and turns an object into one by writing it as
// text and reading that. These do the same at a tenth of the cost, and keep
// whole numbers whole.

func nodeOf(value any) (*kyaml.Node, error) {
	switch v := value.(type) {
	case map[string]any:
		n := &kyaml.Node{Kind: kyaml.MappingNode, Tag: kyaml.NodeTagMap}
		keys := make([]string, 0, len(v))
		for key := range v {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		for _, key := range keys {
			child, err := nodeOf(v[key])
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, scalar(kyaml.NodeTagString, key), child)
		}
		return n, nil
	case []any:
		n := &kyaml.Node{Kind: kyaml.SequenceNode, Tag: kyaml.NodeTagSeq}
		for _, item := range v {
			child, err := nodeOf(item)
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, child)
		}
		return n, nil
	case string:
		return scalar(kyaml.NodeTagString, v), nil
	case int64:
		return scalar(kyaml.NodeTagInt, strconv.FormatInt(v, 10)), nil
	case float64:
		return scalar(kyaml.NodeTagFloat, strconv.FormatFloat(v, 'g', -1, 64)), nil
	case bool:
		return scalar(kyaml.NodeTagBool, strconv.FormatBool(v)), nil
	case nil:
		return scalar(kyaml.NodeTagNull, "null"), nil
	default:
		return nil, fmt.Errorf("a %T is no part of an object", value)
	}
}

func scalar(tag, value string) *kyaml.Node {
	return &kyaml.Node{Kind: kyaml.ScalarNode, Tag: tag, Value: value}
}

func valueOf(n *kyaml.Node) (any, error) {
	switch n.Kind {
	case kyaml.DocumentNode:
		return valueOf(n.Content[0])
	case kyaml.MappingNode:
		out := make(map[string]any, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			value, err := valueOf(n.Content[i+1])
			if err != nil {
				return nil, err
			}
			out[n.Content[i].Value] = value
		}
		return out, nil
	case kyaml.SequenceNode:
		out := make([]any, 0, len(n.Content))
		for _, item := range n.Content {
			value, err := valueOf(item)
			if err != nil {
				return nil, err
			}
			out = append(out, value)
		}
		return out, nil
	}
	switch n.ShortTag() {
	case kyaml.NodeTagString:
		return n.Value, nil
	case kyaml.NodeTagNull:
		return nil, nil
	case kyaml.NodeTagBool:
		return strconv.ParseBool(n.Value)
	case kyaml.NodeTagInt:
		return strconv.ParseInt(n.Value, 10, 64)
	case kyaml.NodeTagFloat:
		return strconv.ParseFloat(n.Value, 64)
	}
	return nil, fmt.Errorf("%s %q is no part of an object", n.ShortTag(), n.Value)
}

func decode(content []byte) (map[string]any, error) {
	out := map[string]any{}
	return out, json.Unmarshal(content, &out)
}
