package apiservicebinding

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/informers/informerstest"
	"gitbind.dev/konnector/internal/agent/controller/claim"
	"gitbind.dev/test/env"
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

// An API server may keep the objects of a kind to itself for long. That keeps no worker, and is said
// until they are known, unless claims were kept in step before.
func TestObjectsThatTheAPIServerDoesNotSendAreWaitedFor(t *testing.T) {
	t.Parallel()
	for name, wasBound := range map[string]bool{"a new API": false, "after a restart": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.granted(nil)
			if wasBound {
				meta.SetStatusCondition(&w.binding.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Bound"})
				if err := w.Client.Status().Update(t.Context(), w.binding); err != nil {
					t.Fatal(err)
				}
			}
			sent := make(chan struct{})
			send := sync.OnceFunc(func() { close(sent) })
			defer send()
			none := slices.Values([][]byte{})
			w.Claims.Config = (&informerstest.Server{
				APIVersion: "anynines.com/v1", Kind: "PostgresqlInstance", Objects: func() iter.Seq[[]byte] { return none },
				Listing: func() { <-sent },
			}).Start(t)
			said := func() *metav1.Condition {
				result, err := w.follow(t.Context(), w.look())
				if err != nil || result.RequeueAfter == 0 {
					t.Errorf("%+v, %v", result, err)
				}
				if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(w.binding), w.binding); err != nil {
					t.Fatal(err)
				}
				return meta.FindStatusCondition(w.binding.Status.Conditions, v1alpha1.ConditionReady)
			}
			want := map[bool]string{false: "Starting", true: "Bound"}[wasBound]
			if c := said(); c == nil || c.Reason != want || !wasBound && !strings.Contains(c.Message, "has not sent") {
				t.Errorf("while nothing is sent: %+v, want %s", c, want)
			}
			send()
			if err := env.Await(time.Minute, func() error {
				if c := said(); c == nil || c.Reason != "Bound" {
					return fmt.Errorf("%+v", c)
				}
				return nil
			}); err != nil {
				t.Errorf("when all is sent: %v", err)
			}
		})
	}
}
