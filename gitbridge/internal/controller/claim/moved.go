package claim

import (
	"bytes"
	"reflect"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/guard"
	"gitbind.dev/gitbridge/internal/transform"
	"gitbind.dev/gitbridge/store"
)

// movedTo is the file that a removed claim seems to be in now, "" if there is
// none: one that still names it, or one that came with the removal and orders the
// same.
func (c *Controller) movedTo(s *step) string {
	if s.Removal == nil || s.removal.Approved {
		return ""
	}
	removed := guard.Removed{Key: s.Key, Read: func(f contract.File) *contract.Claim {
		claim, err := contract.Decode(f, s.api.Kind.Kind)
		if err != nil {
			return nil
		}
		return claim
	}, Equals: func(claim *contract.Claim) bool { return c.isOrdered(s, claim) }}
	for e := range s.view.Main.List(contract.Root) {
		if e.Path == s.Path || contract.IsReserved(e.Path) || e.Mode != store.Regular {
			continue
		}
		// Most files are ruled out by their words.
		f, err := read(s.view.Main, e)
		if err == nil && bytes.Contains(f.Data, []byte(s.Key.Name)) && bytes.Contains(f.Data, []byte(s.Key.Namespace)) && removed.IsIn(f) {
			return e.Path
		}
	}
	for _, path := range s.removal.With {
		e, ok := s.view.Main.Entry(path)
		if !ok {
			continue
		}
		if f, err := read(s.view.Main, e); err == nil && removed.MayBeIn(f) {
			return path
		}
	}
	return ""
}

// isOrdered reports whether a claim orders what the removed one's object is.
func (c *Controller) isOrdered(s *step, claim *contract.Claim) bool {
	made, err := transform.Object(transform.Input{
		Claim: claim, Cluster: c.Session.Cluster, Binding: s.Key.Binding, Shape: s.api.Shape, Template: s.api.Template,
		APIVersion: claim.APIVersion, Kind: claim.Kind,
	})
	spec, _ := s.found.Object["spec"].(map[string]any)
	return err == nil && isPart(made.Object.Object["spec"], spec)
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
