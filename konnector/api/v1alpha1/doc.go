// Package v1alpha1 holds the kinds of the app cluster: Connection and
// APIServiceBinding. It has types only: no client, no Git, no decisions.
//
// +kubebuilder:object:generate=true
// +groupName=gitbind.dev
package v1alpha1
