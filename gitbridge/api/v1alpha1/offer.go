package v1alpha1

import (
	"fmt"
	"regexp"
	"strings"
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

	// References say what a claim belongs to.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	References []Reference `json:"references,omitempty"`

	// Secrets says that Secrets come with a claim, by the template's permissionClaims.
	// +optional
	Secrets bool `json:"secrets,omitempty"`
}

// Reference is a field of a claim that names another claim of its namespace: the one
// that it belongs to. Of several, the first one that names a claim which is there counts.
type Reference struct {
	// Field is the path of a field of text in spec, for example "spec.instanceRef".
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^spec([.][A-Za-z0-9_-]+)+$`
	Field string `json:"field"`

	// API is that of the other claim, as "<plural>.<group>", for example
	// "postgresqlinstances.anynines.com".
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)+$`
	API string `json:"api"`

	// When limits it to claims with another field that says so. Without it the
	// field always names a claim of this API.
	// +optional
	When *ReferenceCondition `json:"when,omitempty"`
}

// ReferenceCondition is that a field of the claim has this value.
type ReferenceCondition struct {
	// Field is the path of a field of text in spec, for example
	// "spec.serviceInstanceType".
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^spec([.][A-Za-z0-9_-]+)+$`
	Field string `json:"field"`

	// Value is what it says, for example "postgresql".
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Value string `json:"value"`
}

// NamesIn are the claims that an object of this offer refers to, in the order of its
// references.
func (o *Offer) NamesIn(object map[string]any) []ReferredClaim {
	if o == nil {
		return nil
	}
	var out []ReferredClaim
	for _, r := range o.References {
		if r.When != nil && textAt(object, r.When.Field) != r.When.Value {
			continue
		}
		if name := textAt(object, r.Field); name != "" {
			out = append(out, ReferredClaim{API: r.API, Name: name})
		}
	}
	return out
}

// ReferredClaim is a claim in the namespace of the one that refers to it.
type ReferredClaim struct {
	// API is "<plural>.<group>".
	API  string
	Name string
}

func textAt(object map[string]any, path string) string {
	parts := strings.Split(path, ".")
	for _, part := range parts[:len(parts)-1] {
		object, _ = object[part].(map[string]any)
	}
	text, _ := object[parts[len(parts)-1]].(string)
	return text
}

// maxText is how long each text of an Offer may be, in characters.
const maxText = 63

const (
	maxReferences = 64
	maxField      = 253
	maxAPI        = 317
)

var (
	fieldPath = regexp.MustCompile(`^spec([.][A-Za-z0-9_-]+)+$`)
	apiName   = regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)+$`)
)

func (r Reference) validate() error {
	switch {
	case len(r.Field) > maxField || !fieldPath.MatchString(r.Field):
		return fmt.Errorf("field %.100q is no path in spec", r.Field)
	case len(r.API) > maxAPI || !apiName.MatchString(r.API):
		return fmt.Errorf("api %.100q is no <plural>.<group>", r.API)
	case r.When == nil:
		return nil
	case len(r.When.Field) > maxField || !fieldPath.MatchString(r.When.Field):
		return fmt.Errorf("when.field %.100q is no path in spec", r.When.Field)
	case r.When.Value == "" || utf8.RuneCountInString(r.When.Value) > maxField:
		return fmt.Errorf("when.value must have 1 to %d characters", maxField)
	}
	return nil
}

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
	if len(o.References) > maxReferences {
		return fmt.Errorf("there are more than %d references", maxReferences)
	}
	for i, r := range o.References {
		if err := r.validate(); err != nil {
			return fmt.Errorf("references[%d]: %w", i, err)
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

// Placed is the place of one of several things that belong to each other.
type Placed struct {
	Index int
	// Depth is how many things it belongs to, one by way of the other.
	Depth int
}

// Together puts each of several things behind the one that it belongs to, and keeps
// their order otherwise: parents has the index of that, or -1. A circle begins with the
// first of it.
func Together(parents []int) []Placed {
	children, out := map[int][]int{}, []Placed(nil)
	for i, parent := range parents {
		if parent != i {
			children[parent] = append(children[parent], i)
		}
	}
	seen := make([]bool, len(parents))
	var add func(i, depth int)
	add = func(i, depth int) {
		if seen[i] {
			return
		}
		seen[i] = true
		out = append(out, Placed{i, depth})
		for _, child := range children[i] {
			add(child, depth+1)
		}
	}
	for i, parent := range parents {
		if parent < 0 || parent == i {
			add(i, 0)
		}
	}
	for i := range parents {
		add(i, 0)
	}
	return out
}
