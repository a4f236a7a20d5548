package claim

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWithoutEmptied(t *testing.T) {
	type m = map[string]any
	for name, c := range map[string]struct {
		now, before, want m
		emptied           bool
	}{
		"nothing is empty":      {m{"a": m{"b": "1"}}, m{"a": m{"b": "1"}}, m{"a": m{"b": "1"}}, false},
		"a map is emptied":      {m{"a": m{}, "c": "1"}, m{"a": m{"b": "1"}}, m{"c": "1"}, true},
		"a list is emptied":     {m{"a": []any{}, "c": "1"}, m{"a": []any{"b"}}, m{"c": "1"}, true},
		"it was empty before":   {m{"a": m{}, "b": []any{}}, m{"a": m{}, "b": []any{}}, m{"a": m{}, "b": []any{}}, false},
		"it was not there":      {m{"a": m{}}, nil, m{"a": m{}}, false},
		"a map within a map":    {m{"a": m{"b": m{}, "c": "1"}}, m{"a": m{"b": m{"d": "1"}}}, m{"a": m{"c": "1"}}, true},
		"it was something else": {m{"a": m{}}, m{"a": "1"}, m{"a": m{}}, false},
	} {
		got, emptied := withoutEmptied(c.now, c.before)
		if diff := cmp.Diff(c.want, got); diff != "" || emptied != c.emptied {
			t.Errorf("%s: %t %s", name, emptied, diff)
		}
	}
}
