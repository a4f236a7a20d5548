package app

// What the bridge may do, beside what the aggregated ClusterRole
// gitbind-offered-apis gives it on the offered APIs, and the right to
// impersonate that the backend gives it in each tenant namespace.
//
// +kubebuilder:rbac:groups=gitbind.dev,resources=clusterbindings;apiserviceexports;apiserviceexporttemplates;dryruns,verbs=get;list;watch
// +kubebuilder:rbac:groups=gitbind.dev,resources=apiserviceexports,verbs=create;delete
// +kubebuilder:rbac:groups=gitbind.dev,resources=dryruns,verbs=delete
// +kubebuilder:rbac:groups=gitbind.dev,resources=dryruns/status,verbs=update
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles;clusterrolebindings,verbs=list;watch
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
// +kubebuilder:rbac:groups=gitbind.dev,resources=clusterbindings/status;apiserviceexports/status;apiserviceexporttemplates/status,verbs=get;patch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,resourceNames=gitbind-bridge,verbs=get
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;create
// +kubebuilder:rbac:groups="",namespace=gitbind-system,resources=secrets,verbs=create
// +kubebuilder:rbac:groups="",namespace=gitbind-system,resources=secrets,resourceNames=gitbind-bridge-encryption,verbs=get;update
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles,resourceNames="gitbind:claim-secrets";"gitbind:claim-inputs",verbs=bind
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=rolebindings,verbs=get;create
// Each shard has a Lease, and looks at those of the others.
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=gitbind-system,resources=leases,verbs=create;get;update
