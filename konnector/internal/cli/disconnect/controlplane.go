package disconnect

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/konnector/internal/cli/appcluster"
)

// keeps names what the namespace must stay for: a control plane, whose namespace has the same
// name and all repositories in it, and what else connect did not put there. A control plane
// may be an app cluster of another one; without a konnector it is not meant.
func (in Input) keeps(ctx context.Context) ([]string, error) {
	konnector, err := in.hasKind(ctx, "connections.gitbind.dev")
	if err != nil {
		return nil, err
	}
	var names []string
	const kind = "clusterbindings.gitbind.dev"
	if there, err := in.hasKind(ctx, kind); err != nil {
		return nil, err
	} else if there {
		names = append(names, "customresourcedefinition/"+kind)
	}
	var deployments appsv1.DeploymentList
	if err := in.Cluster.List(ctx, &deployments, client.InNamespace(appcluster.SystemNamespace)); err != nil {
		return nil, fmt.Errorf("list deployments: %w", err)
	}
	for _, d := range deployments.Items {
		if d.Name != "konnector" {
			names = append(names, "deployment/"+d.Name)
		}
	}
	var volumes corev1.PersistentVolumeClaimList
	if err := in.Cluster.List(ctx, &volumes, client.InNamespace(appcluster.SystemNamespace)); err != nil {
		return nil, fmt.Errorf("list persistentvolumeclaims: %w", err)
	}
	for _, v := range volumes.Items {
		names = append(names, "persistentvolumeclaim/"+v.Name)
	}
	if len(names) > 0 && !konnector {
		return nil, fmt.Errorf("%s, at %s, is no app cluster but a control plane: it has %s, and no konnector. Name the app cluster's context with --context",
			in.Cluster.Context, in.Cluster.Server, strings.Join(names, ", "))
	}
	return names, nil
}

func (in Input) hasKind(ctx context.Context, crd string) (bool, error) {
	err := in.Cluster.Get(ctx, client.ObjectKey{Name: crd}, &apiextensionsv1.CustomResourceDefinition{})
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("look for the kind %s: %w", crd, err)
	}
	return err == nil, nil
}
