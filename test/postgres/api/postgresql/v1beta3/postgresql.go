// Package v1beta3 has the kind Postgresql as anynines' a8s operator serves it: the
// fields that gitbind's compositions and their users need. It holds types only.
//
// +kubebuilder:object:generate=true
// +groupName=postgresql.anynines.com
package v1beta3

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is that of the kind.
var GroupVersion = schema.GroupVersion{Group: "postgresql.anynines.com", Version: "v1beta3"}

// What Status.ClusterStatus says.
const (
	Running    = "Running"
	NotRunning = "NotRunning"
)

// Postgresql is a PostgreSQL server and its standbys.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=postgresqls,shortName=pg
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.clusterStatus`
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="Error",type=string,JSONPath=`.status.error`
type Postgresql struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   Spec   `json:"spec"`
	Status Status `json:"status,omitempty"`
}

// Spec is what is ordered.
type Spec struct {
	// How many servers: one takes writes, the others are standbys. It can only grow.
	//
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=5
	// +kubebuilder:validation:XValidation:rule="self >= oldSelf",message="replicas cannot be scaled down"
	Replicas int32 `json:"replicas,omitempty"`
	// Major version of PostgreSQL.
	//
	// +kubebuilder:validation:Minimum=13
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="version cannot be changed"
	Version int32 `json:"version"`
	// Size of the disk of each server.
	VolumeSize *resource.Quantity `json:"volumeSize,omitempty"`
	// CPU and memory of each server.
	Resources corev1.ResourceRequirements `json:"resources,omitempty"`
	// Parameters of the servers.
	Parameters Configuration `json:"parameters,omitempty"`
	// Where the servers can be reached from.
	//
	// +kubebuilder:validation:Enum=Internal;LoadBalancer
	// +kubebuilder:default=Internal
	Expose string `json:"expose,omitempty"`
	// Whether there is a service of the standbys.
	EnableReadOnlyService bool `json:"enableReadOnlyService,omitempty"`
	// Extensions that are created in the applications' database.
	Extensions []string `json:"extensions,omitempty"`
	// Where pods may run.
	//
	// +kubebuilder:pruning:PreserveUnknownFields
	SchedulingConstraints *runtime.RawExtension `json:"schedulingConstraints,omitempty"`
}

// Configuration has the parameters of a server, each under PostgreSQL's name for it in
// camel case. The server judges the values.
type Configuration struct {
	MaxConnections          *int32  `json:"maxConnections,omitempty"`
	SharedBuffers           *int32  `json:"sharedBuffers,omitempty"` // in blocks of 8 KiB
	MaxReplicationSlots     *int32  `json:"maxReplicationSlots,omitempty"`
	MaxWALSenders           *int32  `json:"maxWALSenders,omitempty"`
	WorkMem                 *int32  `json:"workMem,omitempty"` // in KiB
	StatementTimeoutMillis  *int32  `json:"statementTimeoutMillis,omitempty"`
	TempFileLimitKiloBytes  *int32  `json:"tempFileLimitKiloBytes,omitempty"`
	ArchiveTimeoutSeconds   *int32  `json:"archiveTimeoutSeconds,omitempty"`
	WALWriterDelayMillis    *int32  `json:"walWriterDelayMillis,omitempty"`
	MaxLocksPerTransaction  *int32  `json:"maxLocksPerTransaction,omitempty"`
	DefaultStatisticsTarget *int32  `json:"defaultStatisticsTarget,omitempty"`
	LogStatement            *string `json:"logStatement,omitempty"`
	SynchronousCommit       *string `json:"synchronousCommit,omitempty"`
	TrackIOTiming           *string `json:"trackIOTiming,omitempty"`
	ClientMinMessages       *string `json:"clientMinMessages,omitempty"`
	LogMinMessages          *string `json:"logMinMessages,omitempty"`
	LogMinErrorStatement    *string `json:"logMinErrorStatement,omitempty"`
	LogErrorVerbosity       *string `json:"logErrorVerbosity,omitempty"`
	SSLCiphers              *string `json:"sslCiphers,omitempty"`
	SSLMinProtocolVersion   *string `json:"sslMinProtocolVersion,omitempty"`
}

// Status is what there is.
type Status struct {
	ReadyReplicas int32  `json:"readyReplicas"`
	ClusterStatus string `json:"clusterStatus,omitempty"`
	// What is wrong, in PostgreSQL's own words where it has some.
	Error string `json:"error,omitempty"`
}

// PostgresqlList is a list of them.
//
// +kubebuilder:object:root=true
type PostgresqlList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Postgresql `json:"items"`
}

// AddToScheme adds the kind.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &Postgresql{}, &PostgresqlList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
