package claim

import (
	"bytes"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/guard"
	"gitbind.dev/gitbridge/guard/facts"
	"gitbind.dev/gitbridge/store"
)

// movedTo is the file that a removed claim seems to be in now, "" if there is
// none: one that still names it, or one of the same kind that came with the removal.
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
	}}
	for e := range s.view.Main.List(contract.Root) {
		if e.Path == s.Path || contract.IsReserved(e.Path) || e.Mode != store.Regular {
			continue
		}
		// Most files are ruled out by their words.
		f, err := facts.File(s.view.Main, e)
		if err == nil && bytes.Contains(f.Data, []byte(s.Key.Name)) && bytes.Contains(f.Data, []byte(s.Key.Namespace)) && removed.IsIn(f) {
			return e.Path
		}
	}
	for _, path := range s.removal.CameWith {
		e, ok := s.view.Main.Entry(path)
		if !ok {
			continue
		}
		if f, err := facts.File(s.view.Main, e); err == nil && removed.MayBeIn(f) {
			return path
		}
	}
	return ""
}
