package rotate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/session"
	"gitbind.dev/konnector/internal/cli/signin"
	"gitbind.dev/konnector/internal/cli/terminal"
	"gitbind.dev/konnector/internal/cli/usage"
	"gitbind.dev/test/fakeapi"
)

// The old credential has ended then, so that the konnector would have none.
func TestAnInterruptionDoesNotLoseTheNewCredential(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what string
		// unanswered has the backend end the connection when it has rotated, and refused the API
		// server refuse the Secret.
		unanswered, refused, lost bool
	}{
		{"after the old one has ended", false, false, false},
		{"and the Secret is refused", false, true, true},
		{"and no answer comes", true, false, true},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			var rotated atomic.Bool
			backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/v1/info" {
					fmt.Fprint(w, `{"issuer":"https://dex.example.com","clientID":"gitbind-cli"}`)
					return
				}
				rotated.Store(strings.HasSuffix(r.URL.Path, "/rotate"))
				if rotated.Load() && c.unanswered {
					panic(http.ErrAbortHandler)
				}
				fmt.Fprint(w, `{"username":"konnector","password":"new"}`)
			}))
			defer backend.Close()
			ref := v1alpha1.SecretReference{Namespace: appcluster.SystemNamespace, Name: "gitbind-prod"}
			api := fakeapi.New(fakeapi.Builder().WithObjects(&v1alpha1.Connection{
				ObjectMeta: metav1.ObjectMeta{Name: "prod"},
				Spec:       v1alpha1.ConnectionSpec{BackendURL: backend.URL, ClusterID: "k3x9d2abqwzr4t6m", SecretRef: ref},
			}), interceptor.Funcs{
				Apply: func(ctx context.Context, w client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
					if rotated.Load() {
						interrupt()
						if c.refused {
							return errors.New("no")
						}
					}
					if ctx.Err() != nil {
						return ctx.Err()
					}
					return w.Apply(ctx, o, opts...)
				},
			})
			in := Input{}
			in.Cluster = &appcluster.Cluster{WithWatch: api}
			in.SignIn = &signin.SignIn{Sessions: session.Store{Dir: t.TempDir()}, HTTP: http.DefaultClient, Out: io.Discard, Now: time.Now}
			in.How = signin.How{Token: "GOOD", TrustBackend: backend.URL}
			var notes strings.Builder
			in.Terminal, in.Notes = terminal.Open(nil, io.Discard), terminal.NewWriter(&notes)
			err := Do(ctx, in)
			var secret corev1.Secret
			if lost := api.Get(t.Context(), client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, &secret) != nil; lost != c.lost {
				t.Errorf("the new credential is lost: %t, %v", lost, err)
			}
			if remains := (*usage.Remains)(nil); errors.As(err, &remains) != c.lost {
				t.Errorf("it is said what to do: %v", err)
			}
			if noted := strings.Contains(notes.String(), "another interruption would lose it"); !c.unanswered && !noted {
				t.Errorf("it notes %q", notes.String())
			}
		})
	}
}
