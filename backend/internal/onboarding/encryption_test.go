package onboarding

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/backend/internal/requests"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/encryption"
)

// agents takes everybody for a cluster's konnector.
type agents struct{}

func (agents) Authenticate(_ *http.Request, cluster string) (access.Caller, error) {
	return access.Caller{Role: access.Konnector, Cluster: cluster}, nil
}

// reads counts what is read.
type reads struct {
	client.Reader
	n int
}

func (r *reads) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	r.n++
	return r.Reader.Get(ctx, key, o, opts...)
}

// Each registration of other keys has the bridge seal all Secrets of the cluster again.
func TestH4_AKonnectorRegistersKeysAtARate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, v1alpha1.ClusterBindingSpec{AwaitsKeys: true})
	other := &v1alpha1.ClusterBinding{Spec: v1alpha1.ClusterBindingSpec{AwaitsKeys: true}}
	other.Name = "b7m2q9tfzc"
	if err := w.api.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	live := &reads{Reader: w.api}
	w.Live, w.Now = live, func() time.Time { return now }
	w.Konnectors = &requests.Konnectors{Agents: agents{}, Log: slog.New(slog.DiscardHandler)}
	mux := http.NewServeMux()
	w.mountEncryption(mux)

	signer, err := encryption.NewSigner(encryption.GenerateSeed())
	if err != nil {
		t.Fatal(err)
	}
	var recipients [2]string
	for i := range recipients {
		if _, recipients[i], err = encryption.GenerateIdentity(); err != nil {
			t.Fatal(err)
		}
	}
	register := func(cluster string, n int) *httptest.ResponseRecorder {
		in := restapi.Registration{EncryptionKeys: v1alpha1.EncryptionKeys{Recipients: recipients[n%2 : n%2+1], SigningKeys: []string{signer.Public()}}}
		var cb v1alpha1.ClusterBinding
		if err := w.api.Get(t.Context(), client.ObjectKey{Name: cluster}, &cb); err != nil {
			t.Fatal(err)
		}
		if registered := cb.Spec.Encryption; registered != nil {
			in.Signature = signer.Sign(restapi.RegistrationPurpose, in.Message(cluster, *registered))
		}
		body, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/v1/clusters/"+cluster+"/encryption", bytes.NewReader(body)))
		return answer
	}
	for _, step := range []struct {
		what    string
		cluster string
		after   time.Duration
		taken   int
	}{
		{"at once", id, 0, 5},
		{"another cluster", other.Name, 0, 5},
		{"a second later", id, time.Second, 1},
	} {
		now, live.n = now.Add(step.after), 0
		for n := range 10 {
			answer := register(step.cluster, n)
			switch {
			case n < step.taken && (answer.Code != http.StatusOK || strings.Contains(answer.Body.String(), "refused")):
				t.Errorf("%s, %d: %d %s", step.what, n, answer.Code, answer.Body)
			case n >= step.taken && (answer.Code != http.StatusServiceUnavailable || answer.Header().Get("Retry-After") != "1"):
				t.Errorf("%s, %d: %d %v %s", step.what, n, answer.Code, answer.Header(), answer.Body)
			}
		}
		if live.n != step.taken {
			t.Errorf("%s: the API server is asked %d times, want %d", step.what, live.n, step.taken)
		}
	}
}
