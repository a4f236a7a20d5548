// Package v1alpha1 holds all kinds of the API group gitbind.dev: Connection and
// APIServiceBinding live in an app cluster, ClusterBinding, APIServiceExportTemplate
// and APIServiceExport on the control plane. It has types only: no client, no Git, no
// decisions. What the backend says over HTTP is in the package restapi beside it.
//
// +kubebuilder:object:generate=true
// +groupName=gitbind.dev
package v1alpha1
