package apiservicebinding

import (
	"context"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	webhookerrors "k8s.io/apiserver/pkg/admission/plugin/webhook/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// A cluster's own admission control may refuse a definition, and the code is its to choose: the
// konnector has the right to install it then, and asking again at once does not help.
func TestWhatAdmissionSaysOfADefinitionIsSaid(t *testing.T) {
	t.Parallel()
	for _, code := range []int32{http.StatusForbidden, http.StatusConflict, http.StatusNotFound} {
		w := newWorld(t)
		w.Client = interceptor.NewClient(w.Client.(client.WithWatch), interceptor.Funcs{
			Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
				return webhookerrors.ToStatusErr("hook.example.org", &metav1.Status{Message: "not on a Friday", Code: code})
			},
		})
		want := postgresql()
		want.Name, want.Annotations = "backups.anynines.com", w.crd.Annotations
		_, not, err := w.install(t.Context(), &look{binding: w.binding}, want)
		if err != nil || not == nil || not.reason != "CRDRefused" || !strings.Contains(not.message, "not on a Friday") || not.retry != refusedWait {
			t.Errorf("%d: %+v, %v", code, not, err)
		}
	}
}
