package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// GetConditions returns the list itself.
func (b *APIServiceBinding) GetConditions() []metav1.Condition { return b.Status.Conditions }

// SetConditions replaces the list.
func (b *APIServiceBinding) SetConditions(list []metav1.Condition) { b.Status.Conditions = list }

// GetConditions returns the list itself.
func (e *APIServiceExport) GetConditions() []metav1.Condition { return e.Status.Conditions }

// SetConditions replaces the list.
func (e *APIServiceExport) SetConditions(list []metav1.Condition) { e.Status.Conditions = list }

// GetConditions returns the list itself.
func (t *APIServiceExportTemplate) GetConditions() []metav1.Condition { return t.Status.Conditions }

// SetConditions replaces the list.
func (t *APIServiceExportTemplate) SetConditions(list []metav1.Condition) { t.Status.Conditions = list }

// GetConditions returns the list itself.
func (b *ClusterBinding) GetConditions() []metav1.Condition { return b.Status.Conditions }

// SetConditions replaces the list.
func (b *ClusterBinding) SetConditions(list []metav1.Condition) { b.Status.Conditions = list }

// GetConditions returns the list itself.
func (c *Connection) GetConditions() []metav1.Condition { return c.Status.Conditions }

// SetConditions replaces the list.
func (c *Connection) SetConditions(list []metav1.Condition) { c.Status.Conditions = list }
