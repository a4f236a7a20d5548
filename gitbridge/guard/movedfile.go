package guard

import (
	"slices"

	"gitbind.dev/gitbridge/contract"
)

// Removed is a claim whose file is gone, and by which a file is recognised that holds it
// now. A file that moves is no reason to delete a service.
type Removed struct {
	Key contract.Key
	// Read gives a file as a claim of the API, nil when it is none.
	Read func(contract.File) *contract.Claim
}

// IsIn reports whether a file holds the very claim, wherever it lies: then it has moved,
// edited or not.
func (r Removed) IsIn(f contract.File) bool {
	f.Path = r.Key.Path()
	return r.Read(f) != nil
}

// MayBeIn reports whether a file that came with the removal holds the claim, be it under
// another name and edited: any of the same kind.
func (r Removed) MayBeIn(f contract.File) bool {
	if r.IsIn(f) {
		return true
	}
	key, err := contract.ParsePath(f.Path)
	return err == nil && key.Binding == r.Key.Binding && r.Read(f) != nil
}

// Destinations are the files that may hold a removed claim: those that came with its
// removal, and where these were removed since, those that came with that, as
// cameWith says.
func Destinations(came []string, cameWith func(removed string) []string) []string {
	all := slices.Clone(came)
	for _, path := range came {
		for _, next := range cameWith(path) {
			if !slices.Contains(all, next) {
				all = append(all, next)
			}
		}
	}
	return all
}
