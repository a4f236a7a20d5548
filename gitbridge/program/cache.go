package program

import "gitbind.dev/gitbridge/api/v1alpha1"

// SlimExport is the transform of a cache of exports. It leaves out the definition and the
// policies, which are nearly all that is in an export: who needs them reads the API server.
func SlimExport(object any) (any, error) {
	if e, ok := object.(*v1alpha1.APIServiceExport); ok {
		e.ManagedFields, e.Status.CRD, e.Status.Policies = nil, nil, nil
	}
	return object, nil
}
