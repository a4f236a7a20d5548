package env

import (
	"context"
	"fmt"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Backdate says of a CustomResourceDefinition that is served that it was so an hour ago.
// An API server lets each create of a kind wait for two seconds while the kind is younger
// than that, in case that another server of the cluster does not know it yet; clusters of
// tests have one. See justCreated in apiextensions-apiserver's customresource_handler.go.
func Backdate(ctx context.Context, c client.Client, name string) error {
	var crd apiextensionsv1.CustomResourceDefinition
	if err := c.Get(ctx, client.ObjectKey{Name: name}, &crd); err != nil {
		return err
	}
	for i := range crd.Status.Conditions {
		if served := &crd.Status.Conditions[i]; served.Type == apiextensionsv1.Established && served.Status == apiextensionsv1.ConditionTrue {
			served.LastTransitionTime = metav1.NewTime(time.Now().Add(-time.Hour))
			return c.Status().Update(ctx, &crd)
		}
	}
	return fmt.Errorf("%s is not served yet", name)
}
