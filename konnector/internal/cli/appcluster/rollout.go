package appcluster

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// KonnectorKey is the key of the Deployment of the konnector.
var KonnectorKey = client.ObjectKey{Namespace: SystemNamespace, Name: "konnector"}

// Konnector is the Deployment of the cluster's konnector; nil if there is none.
func (c *Cluster) Konnector(ctx context.Context) (*appsv1.Deployment, error) {
	var d appsv1.Deployment
	if err := c.Get(ctx, KonnectorKey, &d); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return &d, nil
}

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
