package claim

import (
	"bytes"
	"reflect"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/transform"
	"gitbind.dev/gitbridge/store"
)

// movedTo is the file that a removed claim seems to be in now, "" if there is
// none: one that still names it, or one that came with the removal and orders the
// same. A file that moves is no reason to delete a service.
func (c *Controller) movedTo(s *step) string {
	if s.Removal == nil || s.removal.Approved {
		return ""
	}
	if path := named(s); path != "" {
		return path
	}
	spec, _ := s.found.Object["spec"].(map[string]any)
	for _, path := range s.removal.With {
		key, err := contract.ParsePath(path)
		if err != nil || key.Binding != s.Key.Binding {
			continue
		}
		other := decodeAt(s, path, path)
		if other == nil {
			continue
		}
		made, err := transform.Object(transform.Input{
			Claim: other, Cluster: c.Session.Cluster, Binding: s.Key.Binding, Shape: s.api.Shape, Template: s.api.Template,
			APIVersion: other.APIVersion, Kind: other.Kind,
		})
		if err == nil && isPart(made.Object.Object["spec"], spec) {
			return path
		}
	}
	return ""
}

// named finds a file at another path whose content is that of the claim.
func named(s *step) string {
	for e := range s.view.Main.List(contract.Root) {
		if e.Path == s.Path || contract.IsReserved(e.Path) || e.Mode != store.Regular {
			continue
		}
		data, err := s.view.Main.Read(e.Path)
		if err != nil || !bytes.Contains(data, []byte(s.Key.Name)) || !bytes.Contains(data, []byte(s.Key.Namespace)) {
			continue
		}
		if decodeAt(s, e.Path, s.Path) != nil {
			return e.Path
		}
	}
	return ""
}

// decodeAt reads a file as if it lay at a path, nil if it cannot be there.
func decodeAt(s *step, path, as string) *contract.Claim {
	entry, ok := s.view.Main.Entry(path)
	if !ok {
		return nil
	}
	file, err := read(s.view.Main, entry)
	if err != nil {
		return nil
	}
	file.Path = as
	decoded, err := contract.Decode(file, s.api.Kind.Kind)
	if err != nil {
		return nil
	}
	return decoded
}

// isPart reports whether all that is wanted is there; an API server and a
// provider add to it.
func isPart(want, have any) bool {
	w, ok := want.(map[string]any)
	if !ok {
		return reflect.DeepEqual(want, have)
	}
	h, ok := have.(map[string]any)
	if !ok {
		return len(w) == 0 && have == nil
	}
	for key, value := range w {
		if !isPart(value, h[key]) {
			return false
		}
	}
	return true
}
