package appcluster

import appsv1 "k8s.io/api/apps/v1"

// RolledOut reports whether no pod of a Deployment is of an older template than it has now, and
// one is available, if there are to be any. All need not be: of konnectors, one works.
func RolledOut(d *appsv1.Deployment) bool {
	wanted := int32(1)
	if d.Spec.Replicas != nil {
		wanted = min(wanted, *d.Spec.Replicas)
	}
	s := d.Status
	return s.ObservedGeneration >= d.Generation && s.UpdatedReplicas == s.Replicas && s.AvailableReplicas >= wanted
}

// Image is that of a Deployment's first container; "" where it has none.
func Image(d *appsv1.Deployment) string {
	for _, c := range d.Spec.Template.Spec.Containers {
		return c.Image
	}
	return ""
}
