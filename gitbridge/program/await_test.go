package program

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"gitbind.dev/gitbridge/api/v1alpha1"
)

// A program that starts before the API server waits for it, alive and not ready.
func TestAnAPIServerThatIsAwayIsAwaited(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := Options{HealthListen: listener.Addr().String()}
	_ = listener.Close()
	health := make(chan int, 4)
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 1 {
			for _, path := range []string{"/healthz", "/readyz"} {
				answer, err := http.Get("http://" + o.HealthListen + path)
				if err != nil {
					health <- 0
					continue
				}
				health <- answer.StatusCode
				_ = answer.Body.Close()
			}
			http.Error(w, "not yet", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(metav1.APIResourceList{APIResources: []metav1.APIResource{{Kind: "DryRun"}}})
	}))
	defer server.Close()
	has, err := o.AwaitKind(t.Context(), &rest.Config{Host: server.URL}, v1alpha1.GroupVersion.WithKind("DryRun"))
	if err != nil || !has {
		t.Fatal(has, err)
	}
	if alive, ready := <-health, <-health; alive != http.StatusOK || ready != http.StatusNotFound {
		t.Errorf("meanwhile /healthz answers %d, and /readyz %d", alive, ready)
	}
	if listener, err = net.Listen("tcp", o.HealthListen); err != nil {
		t.Fatal(err) // the manager listens there then
	}
	_ = listener.Close()

	none := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer none.Close()
	if _, err := (Options{}).AwaitKind(t.Context(), &rest.Config{Host: none.URL}, v1alpha1.GroupVersion.WithKind("DryRun")); !apierrors.IsUnauthorized(err) {
		t.Errorf("refused: %v", err)
	}
	untrusted := httptest.NewTLSServer(nil)
	defer untrusted.Close()
	if _, err := (Options{}).AwaitKind(t.Context(), &rest.Config{Host: untrusted.URL}, v1alpha1.GroupVersion.WithKind("DryRun")); !errors.As(err, new(*tls.CertificateVerificationError)) {
		t.Errorf("not to be trusted: %v", err)
	}

	ended, end := context.WithCancel(t.Context())
	end()
	asked.Store(0)
	if _, err := o.AwaitKind(ended, &rest.Config{Host: server.URL}, v1alpha1.GroupVersion.WithKind("DryRun")); err == nil {
		t.Error("it has not ended")
	}
}
