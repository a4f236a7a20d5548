package claim

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// applyEmptied applies an object in which maps or lists are empty that are not on
// the API server. Server-side apply takes their entries out and leaves null in
// their place, which no schema allows: so they go first as a whole, and come back
// empty. The error is refused, where that is no help.
func (c *Controller) applyEmptied(ctx context.Context, s *step, refused error) (*unstructured.Unstructured, error) {
	found, err := c.get(ctx, s)
	if err != nil || found == nil {
		return nil, refused
	}
	first := s.withoutEmptied(found)
	if first == nil {
		return nil, refused
	}
	u := found
	for _, object := range []*unstructured.Unstructured{first, s.object} {
		data, err := on(object, u).MarshalJSON()
		if err != nil {
			return nil, err
		}
		if u, err = c.patch(ctx, s, data); err != nil {
			return nil, err
		}
	}
	return u, nil
}

// withoutEmptied is the object to be applied first, nil where that is no help.
func (s *step) withoutEmptied(found *unstructured.Unstructured) *unstructured.Unstructured {
	spec, _ := s.object.Object["spec"].(map[string]any)
	before, _ := found.Object["spec"].(map[string]any)
	without, emptied := withoutEmptied(spec, before)
	if !emptied {
		return nil
	}
	first := s.object.DeepCopy()
	first.Object["spec"] = without
	return first
}

// withoutEmptied leaves out what is empty now and was not before.
func withoutEmptied(now, before map[string]any) (out map[string]any, emptied bool) {
	out = map[string]any{}
	for k, v := range now {
		switch value := v.(type) {
		case map[string]any:
			was, _ := before[k].(map[string]any)
			if len(value) == 0 && len(was) > 0 {
				emptied = true
				continue
			}
			inner, some := withoutEmptied(value, was)
			out[k], emptied = inner, emptied || some
		case []any:
			if was, _ := before[k].([]any); len(value) == 0 && len(was) > 0 {
				emptied = true
				continue
			}
			out[k] = value
		default:
			out[k] = v
		}
	}
	return out, emptied
}
