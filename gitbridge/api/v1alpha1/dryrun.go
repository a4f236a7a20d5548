package v1alpha1

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The bounds of one DryRun, which the backend keeps to.
const (
	// MaxDryRunClaims is how many claims one has, and MaxDryRunBytes how large they are
	// together, as EncodedSize counts.
	MaxDryRunClaims = 50
	MaxDryRunBytes  = 64 << 10
	// MaxDryRuns is how many there are of one app cluster.
	MaxDryRuns = 10
)

// EncodedSize is how many bytes a text takes where objects are stored: JSON has up to six for
// one of the text.
func EncodedSize(text string) int {
	data, err := json.Marshal(text)
	if err != nil {
		return 6 * len(text)
	}
	return len(data)
}

// DryRun asks the bridge what the control plane's API server would say to one proposed change,
// and what would become of its claims. It lives in the tenant namespace. The backend writes it,
// as it knows what a merge would change; the bridge, which alone may act as the tenant, tries
// the claims, writes nothing by that, and deletes a DryRun that nobody asks for any more.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=gitbind
// +kubebuilder:printcolumn:name="Branch",type=string,JSONPath=`.spec.branch`
// +kubebuilder:printcolumn:name="Asked",type=date,JSONPath=`.spec.askedAt`
// +kubebuilder:printcolumn:name="Tried",type=date,JSONPath=`.status.triedAt`
type DryRun struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   DryRunSpec   `json:"spec"`
	Status DryRunStatus `json:"status,omitempty"`
}

// DryRunSpec is what main would have after a merge.
type DryRunSpec struct {
	// Branch is that of the proposed change.
	// +kubebuilder:validation:MaxLength=1024
	Branch string `json:"branch"`

	// Change is that which is tried.
	Change ProposedChange `json:"change"`

	// AskedAt is when it was asked for last: another time asks again.
	AskedAt metav1.Time `json:"askedAt"`

	// Claims are those that it changes.
	// +listType=map
	// +listMapKey=path
	// +kubebuilder:validation:MaxItems=50
	Claims []ProposedClaim `json:"claims"`
}

// ProposedChange says which change is meant.
type ProposedChange struct {
	// Head is the commit at which its branch stands.
	// +kubebuilder:validation:MaxLength=64
	Head string `json:"head"`

	// Effect is a digest of which files main would have other than now, and how.
	// +kubebuilder:validation:MaxLength=64
	Effect string `json:"effect"`
}

// ProposedClaim is a claim file as main would have it.
type ProposedClaim struct {
	// +kubebuilder:validation:MaxLength=1024
	Path string `json:"path"`

	// Content is the whole file; empty for one that main would not have any more.
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	Content string `json:"content,omitempty"`
}

// DryRunStatus is the bridge's answer.
type DryRunStatus struct {
	// ObservedGeneration is that of the spec which was tried.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// TriedAt is when that was.
	// +optional
	TriedAt *metav1.Time `json:"triedAt,omitempty"`

	// Change is the one that was tried.
	// +optional
	Change ProposedChange `json:"change,omitempty"`

	// Claims are as in the spec.
	// +optional
	// +listType=map
	// +listMapKey=path
	// +kubebuilder:validation:MaxItems=50
	Claims []TriedClaim `json:"claims,omitempty"`
}

// TriedClaim is what the control plane says to a claim.
type TriedClaim struct {
	Path string `json:"path"`

	// Refused is why the control plane would not take it, empty if it would.
	// +optional
	Refused string `json:"refused,omitempty"`

	// Untried is why that is not known.
	// +optional
	Untried string `json:"untried,omitempty"`

	// Transient says that it may be known if it is asked for again.
	// +optional
	Transient bool `json:"transient,omitempty"`

	// Fields are what would change in its object; MoreFields how many more there are.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Fields []FieldChange `json:"fields,omitempty"`
	// +optional
	MoreFields int `json:"moreFields,omitempty"`
}

// FieldChange is a field with another value, as JSON except for strings; empty where there is
// no such field.
type FieldChange struct {
	Field string `json:"field"`
	// +optional
	Before string `json:"before,omitempty"`
	// +optional
	After string `json:"after,omitempty"`
}

// DryRunList is a list of DryRuns.
//
// +kubebuilder:object:root=true
type DryRunList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []DryRun `json:"items"`
}

// IsAnswered reports whether the bridge has tried what is asked for.
func (d *DryRun) IsAnswered() bool { return d.Status.ObservedGeneration == d.Generation }
