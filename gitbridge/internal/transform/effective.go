package transform

import (
	"reflect"
	"slices"
)

// differences are the fields of spec that a template changed: their values as
// they are applied, null for one that it took away. Overruled are the paths,
// sorted, of those for which the claim says something else.
func differences(claimed, applied map[string]any) (effective map[string]any, overruled []string) {
	effective = map[string]any{}
	compare("spec", claimed, applied, effective, &overruled)
	if len(effective) == 0 {
		return nil, nil
	}
	slices.Sort(overruled)
	return effective, overruled
}

func compare(path string, claimed, applied, out map[string]any, overruled *[]string) {
	for key, value := range applied {
		was, ok := claimed[key]
		before, isMap := was.(map[string]any)
		now, stillMap := value.(map[string]any)
		switch {
		case !ok:
			out[key] = value
		case isMap && stillMap:
			inner := map[string]any{}
			if compare(path+"."+key, before, now, inner, overruled); len(inner) > 0 {
				out[key] = inner
			}
		case !reflect.DeepEqual(was, value):
			out[key] = value
			*overruled = append(*overruled, path+"."+key)
		}
	}
	for key := range claimed {
		if _, ok := applied[key]; !ok {
			out[key] = nil
			*overruled = append(*overruled, path+"."+key)
		}
	}
}
