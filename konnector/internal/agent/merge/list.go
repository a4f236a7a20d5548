package merge

import (
	"encoding/json"
	"slices"
	"strings"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
)

// items are the elements of a list by what tells one from the other.
type items struct {
	order []string
	byKey map[string]any
}

func (l items) at(key string) field { return at(l.byKey, key) }

// lists merges lists of which the schema says how elements are told apart.
// Their order says nothing, but is kept where nobody has changed it.
func (m *merger) lists(path string, s *structural.Structural, base, cluster, git field) (field, bool) {
	key := keyOf(s)
	if key == nil {
		return field{}, false
	}
	b, ok := itemsOf(base, key)
	if !ok && base.there {
		return field{}, false
	}
	c, okC := itemsOf(cluster, key)
	g, okG := itemsOf(git, key)
	if !okC || !okG {
		return field{}, false
	}
	merged := map[string]any{}
	for _, k := range keysOf(b.byKey, c.byKey, g.byKey) {
		if e := m.merge(path+"["+k+"]", s.Items, b.at(k), c.at(k), g.at(k)); e.there {
			merged[k] = e.value
		}
	}
	out := make([]any, 0, len(merged))
	for _, k := range order(b.order, c.order, g.order, merged) {
		out = append(out, merged[k])
	}
	return field{out, true}, true
}

// order is that of the side that changed it, else that of Git. What only the
// other side has comes after what it follows there.
func order(base, cluster, git []string, merged map[string]any) []string {
	first, second := git, cluster
	if !slices.Equal(among(git, base), among(base, git)) {
		// Git has another order than before: it counts.
	} else if !slices.Equal(among(cluster, base), among(base, cluster)) {
		first, second = cluster, git
	}
	known := set(first)
	// What comes after each, "" for the beginning.
	follow := map[string][]string{}
	after := ""
	for _, key := range second {
		if known[key] {
			after = key
		} else {
			follow[after] = append(follow[after], key)
		}
	}
	all := follow[""]
	for _, key := range first {
		all = append(append(all, key), follow[key]...)
	}
	return slices.DeleteFunc(all, func(key string) bool { _, ok := merged[key]; return !ok })
}

// among are the keys that another list has, too.
func among(keys, other []string) []string {
	known := set(other)
	return slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return !known[key] })
}

func set(keys []string) map[string]bool {
	out := make(map[string]bool, len(keys))
	for _, key := range keys {
		out[key] = true
	}
	return out
}

// keyOf tells elements of a list apart; nil for a list that is one value.
func keyOf(s *structural.Structural) func(any) (string, bool) {
	if s == nil || s.XListType == nil || s.Items == nil {
		return nil
	}
	switch *s.XListType {
	case "set":
		return text
	case "map":
		return func(e any) (string, bool) { return mapKey(e, s.XListMapKeys) }
	}
	return nil
}

func mapKey(e any, names []string) (string, bool) {
	o, ok := e.(map[string]any)
	if !ok {
		return "", false
	}
	var parts []string
	for _, name := range names {
		value, ok := text(o[name])
		if !ok {
			return "", false
		}
		parts = append(parts, name+"="+value)
	}
	return strings.Join(parts, ","), len(parts) > 0
}

// text is a value in one line; equal values give equal ones.
func text(v any) (string, bool) {
	b, err := json.Marshal(v)
	return string(b), err == nil
}

// itemsOf fails where there is no list, or its elements cannot be told apart.
func itemsOf(f field, key func(any) (string, bool)) (items, bool) {
	list, ok := f.value.([]any)
	if !ok {
		return items{}, false
	}
	out := items{byKey: map[string]any{}}
	for _, e := range list {
		k, ok := key(e)
		if _, twice := out.byKey[k]; !ok || twice {
			return items{}, false
		}
		out.order = append(out.order, k)
		out.byKey[k] = e
	}
	return out, true
}
