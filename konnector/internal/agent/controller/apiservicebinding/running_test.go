package apiservicebinding

import (
	"context"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/informers/informerstest"
	"gitbind.dev/konnector/internal/agent/controller/claim"
)

// granted has the API on both branches, and the konnector all rights to run it. Its claim
// controller sees no objects.
func (w *world) granted(change func(*v1alpha1.APIServiceExport)) {
	w.Helper()
	w.put("main", map[string]string{contract.RequestPath(binding): asked})
	w.put("status", map[string]string{contract.ExportPath(binding): string(export(w.T, postgresql(), change))})
	w.crd.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
	if err := w.Client.Status().Update(w.Context(), w.crd); err != nil {
		w.Fatal(err)
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(kindOf(w.crd), meta.RESTScopeNamespace)
	w.Mapper = mapper
	w.Client = interceptor.NewClient(w.Client.(client.WithWatch), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if review, ok := o.(*authorizationv1.SelfSubjectAccessReview); ok {
				review.Status.Allowed = true
				return nil
			}
			return c.Create(ctx, o, opts...)
		},
	})
	w.Claims = &claim.Controllers{
		Config: informerstest.Serve(w.T, "anynines.com/v1", "PostgresqlInstance", slices.Values([][]byte{})),
		Cached: w.Client, Live: w.Live, Client: w.Client, Workers: 1, OnChange: func(string) {},
	}
	w.Cleanup(func() { w.Claims.Stop(binding) })
}

// isRunning reports whether the claim controller was started.
func (w *world) isRunning() bool {
	return w.Claims.Running(claim.API{Binding: binding, Kind: kindOf(w.crd)})
}
