// Package v1alpha1 holds the kinds of the control plane, what a backend says
// over HTTP, and the export that travels to an app cluster through Git. It has
// types only: no client, no Git, no decisions.
//
// +kubebuilder:object:generate=true
// +groupName=gitbind.dev
package v1alpha1
