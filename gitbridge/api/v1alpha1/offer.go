package v1alpha1

import (
	"fmt"
	"unicode/utf8"
)

// Offer is what an APIServiceExportTemplate says for people, as it travels with the
// API to app clusters: no machine decides anything by it.
type Offer struct {
	// DisplayName is how people know the API, for example "PostgreSQL"; its kind,
	// where the template has no name for it.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	DisplayName string `json:"displayName,omitempty"`

	// Group is the heading under which the catalogue lists it, for example
	// "Databases".
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Group string `json:"group,omitempty"`
}

// maxText is how long each text of an Offer may be, in characters.
const maxText = 63

// Validate tells whether it may stand in a status: an app cluster has it from Git.
func (o *Offer) Validate() error {
	if o == nil {
		return nil
	}
	for name, text := range map[string]string{"displayName": o.DisplayName, "group": o.Group} {
		if utf8.RuneCountInString(text) > maxText {
			return fmt.Errorf("%s has more than %d characters", name, maxText)
		}
	}
	return nil
}

// DisplayNames are the names of APIs for people, by the name of their binding
// ("<plural>.<group>"). An API without an offer is called by that of its binding, and
// where several share a name, it stands behind it.
func DisplayNames(offers map[string]*Offer) map[string]string {
	names, uses := map[string]string{}, map[string]int{}
	for binding, o := range offers {
		names[binding] = binding
		if o != nil && o.DisplayName != "" {
			names[binding] = o.DisplayName
		}
		uses[names[binding]]++
	}
	for binding, name := range names {
		if uses[name] > 1 {
			names[binding] = name + " (" + binding + ")"
		}
	}
	return names
}
