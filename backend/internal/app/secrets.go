package app

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/gitbridge/api/v1alpha1"
)

// watchSecrets has requests end with the credentials that an operator removes
// or replaces. It also fills the cache of the konnectors' Secrets before the
// first konnector comes: no controller watches them, and so no one else would.
func (c *controlPlane) watchSecrets(auth *access.Authenticator) error {
	for role, secrets := range map[access.Role]cache.Cache{access.Konnector: c.konnectorSecrets, access.Bridge: c.bridgeSecrets} {
		err := c.Add(manager.RunnableFunc(func(ctx context.Context) error {
			return handle(ctx, secrets, &corev1.Secret{}, secretHandler(ctx, auth, role))
		}))
		if err != nil {
			return err
		}
	}
	return nil
}

// handle has changes of a kind handled, as soon as the API server can be asked for them.
func handle(ctx context.Context, objects cache.Cache, kind client.Object, handler toolscache.ResourceEventHandler) error {
	var informer cache.Informer
	err := wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		var err error
		informer, err = objects.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		return err == nil, nil // the API server is away: try again
	})
	if err != nil {
		return nil // the process ends
	}
	_, err = informer.AddEventHandler(handler)
	return err
}

func secretHandler(ctx context.Context, auth *access.Authenticator, role access.Role) toolscache.ResourceEventHandler {
	changed := func(o any) {
		s, ok := o.(*corev1.Secret)
		if !ok {
			return
		}
		if id := s.Labels[v1alpha1.LabelCluster]; s.Namespace == v1alpha1.TenantNamespace(id) {
			// It asks the API server, and must not hold up the others.
			go auth.SecretChanged(ctx, id, role)
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		UpdateFunc: func(before, after any) {
			if b, ok := before.(*corev1.Secret); ok && b.ResourceVersion == after.(*corev1.Secret).ResourceVersion {
				return
			}
			changed(after)
		},
		DeleteFunc: func(o any) {
			if unknown, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
				o = unknown.Obj
			}
			changed(o)
		},
	}
}
