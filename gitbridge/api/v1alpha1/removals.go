package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Annotations on a Connection or a ClusterBinding, by which a person decides for its
// side. An approval counts once: the bridge removes it from a ClusterBinding when it has
// acted on it, and the konnector, which may not write to a Connection, remembers it in
// status.approved.
const (
	// ApproveMainAnnotation names a commit of main, which counts from there on though
	// it does not continue the history that was accepted. On a Connection it may be
	// "none", for a main that does not exist.
	ApproveMainAnnotation = "gitbind.dev/approve-main"
	// ApproveRemovalsAnnotation names a commit of main: what it lacks may be
	// deleted here, however many these are. On a Connection, what was being deleted
	// when the annotation was seen may be removed from main, too.
	ApproveRemovalsAnnotation = "gitbind.dev/approve-removals"
	// ApproveNone is the commit of a main that does not exist.
	ApproveNone = "none"
)

// RemovalLimits say how many removals are too many at once.
type RemovalLimits struct {
	// Most is how many claims may be removed within Window. With 0 each removal
	// needs an approval.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=200
	Most *int32 `json:"most,omitempty"`
	// Window is a duration from 1m to 24h.
	// +optional
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+[hms])+$') && duration(self) >= duration('1m') && duration(self) <= duration('24h')",message="window must be a duration from 1m to 24h, for example 10m"
	Window *metav1.Duration `json:"window,omitempty"`
	// SharePercent is how large a part of a binding's claims is too much: two
	// claims or more that are this part of them may not be removed within Window,
	// even if they are not more than Most. With 0 there is no such limit.
	// +optional
	// +kubebuilder:default=50
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	SharePercent *int32 `json:"sharePercent,omitempty"`
}

// Removal is a claim whose removal passed.
type Removal struct {
	// Path of its file on main.
	Path string      `json:"path"`
	Time metav1.Time `json:"time"`
}
