package v1alpha1

// Condition types that several kinds have. The others stand with their kind.
const (
	// ConditionReady is the one that every kind has. Of a ClusterBinding it says that
	// namespace, rights, repository and credentials exist, and the backend writes it.
	ConditionReady = "Ready"
	// ConditionGranted of an APIServiceBinding says what the control plane answers to
	// the request for the API. Of an APIServiceExport it says that the tenant's
	// ServiceAccount holds the rights on the API; there, the backend writes it.
	ConditionGranted = "Granted"
)
