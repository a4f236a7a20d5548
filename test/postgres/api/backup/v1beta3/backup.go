// Package v1beta3 has the kinds Backup and Restore as anynines' a8s operators serve
// them. It holds types only.
//
// +kubebuilder:object:generate=true
// +groupName=backups.anynines.com
package v1beta3

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// GroupVersion is that of the kinds.
var GroupVersion = schema.GroupVersion{Group: "backups.anynines.com", Version: "v1beta3"}

// Types of conditions of both kinds.
const (
	InProgress        = "InProgress"
	Complete          = "Complete"
	Failed            = "Failed" // the last try; another one follows
	PermanentlyFailed = "PermanentlyFailed"
)

// ServiceInstance is the instance, in the same namespace.
type ServiceInstance struct {
	APIGroup string `json:"apiGroup,omitempty"`
	// +kubebuilder:validation:Enum=Postgresql
	Kind string `json:"kind"`
	Name string `json:"name"`
}

// Backup is what an instance's database holds at one time.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=backups
// +kubebuilder:printcolumn:name="Complete",type=string,JSONPath=`.status.conditions[?(@.type=="Complete")].status`
type Backup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a backup cannot be changed: make another one"
	Spec   BackupSpec   `json:"spec"`
	Status BackupStatus `json:"status,omitempty"`
}

// BackupSpec names the instance.
type BackupSpec struct {
	ServiceInstance ServiceInstance `json:"serviceInstance"`
	// How often a backup that failed is tried again: a number or "Infinite".
	//
	// +kubebuilder:default="10"
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self.matches('^([0-9]+|Infinite)$')",message="maxRetries is a number or Infinite"
	MaxRetries *intstr.IntOrString `json:"maxRetries,omitempty"`
}

// BackupStatus is how far it is.
type BackupStatus struct {
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	Retries    int32              `json:"retries,omitempty"`
	BackupID   string             `json:"backupID,omitempty"`
	// In bytes.
	Size                int64        `json:"size,omitempty"`
	LastObservationTime *metav1.Time `json:"lastObservationTime,omitempty"`
}

// Restore brings a backup back into an instance.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=restores
// +kubebuilder:printcolumn:name="Complete",type=string,JSONPath=`.status.conditions[?(@.type=="Complete")].status`
type Restore struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a restore cannot be changed: make another one"
	Spec   RestoreSpec   `json:"spec"`
	Status RestoreStatus `json:"status,omitempty"`
}

// RestoreSpec names the instance and the backup.
type RestoreSpec struct {
	ServiceInstance ServiceInstance `json:"serviceInstance"`
	BackupName      string          `json:"backupName"`
}

// RestoreStatus is how far it is.
type RestoreStatus struct {
	// +listType=map
	// +listMapKey=type
	Conditions          []metav1.Condition `json:"conditions,omitempty"`
	RestoreID           string             `json:"restoreID,omitempty"`
	LastObservationTime *metav1.Time       `json:"lastObservationTime,omitempty"`
}

// BackupList is a list of them.
//
// +kubebuilder:object:root=true
type BackupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Backup `json:"items"`
}

// RestoreList is a list of them.
//
// +kubebuilder:object:root=true
type RestoreList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Restore `json:"items"`
}

// AddToScheme adds the kinds.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &Backup{}, &BackupList{}, &Restore{}, &RestoreList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
