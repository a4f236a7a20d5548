package guard

import "gitbind.dev/gitbridge/contract"

// Removed is a claim whose file is gone, and by which a file is recognised that holds it
// now. A file that moves is no reason to delete a service.
type Removed struct {
	Key contract.Key
	// Read gives a file as a claim of the API, nil when it is none.
	Read func(contract.File) *contract.Claim
	// Equals reports whether a claim orders what the removed one did.
	Equals func(*contract.Claim) bool
}

// IsIn reports whether a file holds the very claim, wherever it lies: then it has moved,
// edited or not.
func (r Removed) IsIn(f contract.File) bool {
	f.Path = r.Key.Path()
	return r.Read(f) != nil
}

// MayBeIn reports whether a file that came with the removal holds the claim, be it under
// another name.
func (r Removed) MayBeIn(f contract.File) bool {
	if r.IsIn(f) {
		return true
	}
	key, err := contract.ParsePath(f.Path)
	if err != nil || key.Binding != r.Key.Binding {
		return false
	}
	claim := r.Read(f)
	return claim != nil && r.Equals(claim)
}
