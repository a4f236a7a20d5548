package apiservicebinding

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"gitbind.dev/konnector/internal/agent/controller/claim"
	"gitbind.dev/test/fakeapi"
)

// An API server that has just begun to serve a kind may not answer for it yet. That keeps no
// worker, and is said.
func TestAKindForWhichTheAPIServerDoesNotAnswerIsAskedForAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		kind := kindOf(postgresql())
		mapper := meta.NewDefaultRESTMapper(nil)
		mapper.Add(kind, meta.RESTScopeNamespace)
		r := &Reconciler{Mapper: mapper, Live: fakeapi.New(fakeapi.Builder(), interceptor.Funcs{
			List: func(ctx context.Context, _ client.WithWatch, _ client.ObjectList, _ ...client.ListOption) error {
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-time.After(time.Hour):
					return nil
				}
			},
		})}
		begun := time.Now()
		not, err := r.served(t.Context(), claim.API{Binding: binding, Kind: kind})
		if err != nil || not == nil || not.reason != "CRDNotEstablished" || !strings.Contains(not.message, "does not answer") || not.retry == 0 {
			t.Errorf("%+v, %v", not, err)
		}
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("it took %s", took)
		}
		// What is given up is no news.
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if not, err := r.served(ctx, claim.API{Binding: binding, Kind: kind}); err == nil || not != nil {
			t.Errorf("at the end: %+v, %v", not, err)
		}
	})
}
