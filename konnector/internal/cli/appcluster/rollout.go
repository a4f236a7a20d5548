package appcluster

import appsv1 "k8s.io/api/apps/v1"

// IsReplaced reports whether no pod of a Deployment is of an older template than it has now.
func IsReplaced(d *appsv1.Deployment) bool {
	return d.Status.ObservedGeneration >= d.Generation && d.Status.UpdatedReplicas == d.Status.Replicas
}

// IsRolledOut reports whether a Deployment is replaced and one of its pods is available, if there
// are to be any. All need not be: of konnectors, one works.
func IsRolledOut(d *appsv1.Deployment) bool {
	wanted := int32(1)
	if d.Spec.Replicas != nil {
		wanted = min(wanted, *d.Spec.Replicas)
	}
	return IsReplaced(d) && d.Status.AvailableReplicas >= wanted
}

// Image is that of a Deployment's first container; "" where it has none.
func Image(d *appsv1.Deployment) string {
	if all := d.Spec.Template.Spec.Containers; len(all) > 0 {
		return all[0].Image
	}
	return ""
}
