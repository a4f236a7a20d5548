package connection

import (
	"context"
	"net/http"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	webhookerrors "k8s.io/apiserver/pkg/admission/plugin/webhook/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"gitbind.dev/gitbridge/admission"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/konnector/internal/agent/repository"
	"gitbind.dev/test/fakeapi"
)

// A webhook may deny with 409. Removals wait while a checkpoint is saved.
func TestACheckpointThatIsDeniedIsNotTriedOnAndOn(t *testing.T) {
	conn := &v1alpha1.Connection{ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "c1"}}
	writes := 0
	api := fakeapi.New(fakeapi.Builder().WithStatusSubresource(conn).WithObjects(conn), interceptor.Funcs{
		SubResourceUpdate: func(context.Context, client.Client, string, client.Object, ...client.SubResourceUpdateOption) error {
			writes++
			return webhookerrors.ToStatusErr("hook.example.org", &metav1.Status{Message: "no", Code: http.StatusConflict})
		},
	})
	r := &Reconciler{Client: api, Live: api, Now: time.Now}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := r.save(ctx, conn.Name, conn.UID, repository.Checkpoint{Accepted: "c2"}); !admission.Denied(err) || writes != 1 {
		t.Errorf("after %d writes: %v", writes, err)
	}
}
