// Package onboarding lets people connect their clusters and bind APIs:
// GET /v1/info, POST and GET /v1/clusters, POST /v1/clusters/{id}/bindings and
// GET /v1/catalog, as gitbridge/api/restapi describes them. With
// /v1/clusters/{id}/credential a konnector renews its credential (credential.go), and
// the owner replaces or ends it (rotate.go); what is issued, package keyring issues.
//
// It writes what was asked for as objects (a ClusterBinding, an APIServiceExport,
// the cluster's own right to bind that in Git) and leaves to the controllers what
// follows from them. Who may bind what is the control plane's RBAC, asked with a
// SubjectAccessReview for the person's own name, and so is who may connect clusters
// (right.go); a cluster belongs to the identity that connected it, and is not there
// for anybody else. It refuses to take a name, an owner or
// an id from the request: all of these follow from the ID token.
//
// A request is read once into a typed input (input.go), the flows work on that
// (connect.go, bind.go, catalog.go), and failures are refusals that become HTTP
// in one place (http.go).
//
// A cluster that was lost and rebuilt takes its old place with reclaim.go. Owners
// share their clusters' repositories with share.go, and hand clusters over with
// transfer.go.
//
// +kubebuilder:rbac:groups=gitbind.dev,resources=clusterbindings,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=gitbind.dev,resources=apiserviceexporttemplates,verbs=get;list;watch
//
// Held only to be handed on to tenants, template by template:
// +kubebuilder:rbac:groups=gitbind.dev,resources=apiserviceexporttemplates,verbs=bind
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles;clusterrolebindings,verbs=get;create
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles,verbs=patch
//
// Held only to be handed on to those with whom an owner shares:
// +kubebuilder:rbac:groups=gitbind.dev,resources=apiserviceexports,verbs=view;propose;approve;write
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles,verbs=create;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=rolebindings,verbs=list;create;delete
//
// +kubebuilder:rbac:groups=gitbind.dev,resources=apiserviceexports,verbs=get;list;watch;create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
package onboarding
