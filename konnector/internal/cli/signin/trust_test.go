package signin

import (
	"bytes"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"gitbind.dev/konnector/internal/cli/session"
)

func TestTheCertificatesThatThePersonAgreedToAreTrustedLater(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	other, third := append([]byte("# another\n"), ca...), append([]byte("# a third\n"), ca...)
	s := &SignIn{Sessions: session.Store{Dir: t.TempDir()}, HTTP: http.DefaultClient}
	for _, c := range []struct {
		what         string
		how          How
		bundle, want []byte
	}{
		{"the person's", How{}, ca, ca},
		{"none after the person's", How{}, nil, ca},
		{"a Connection's that nobody was asked about", How{Connection: "default", Silent: true}, other, ca},
		{"a Connection's", How{Connection: "default", TrustBackend: backendURL}, other, other},
		{"the person's, beside that", How{}, third, slices.Concat(other, []byte("\n"), third)},
		{"the Connection's as before", How{Connection: "default"}, other, slices.Concat(other, []byte("\n"), third)},
	} {
		in, err := s.Trusting(c.bundle)
		if err != nil {
			t.Fatal(err)
		}
		if err := in.Agree(t.Context(), backendURL, Provider{}, c.how); (err != nil) != c.how.Silent {
			t.Fatal(err)
		}
		if err := in.save(backendURL, Provider{}, token{raw: "x"}); err != nil {
			t.Fatal(err)
		}
		saved, err := s.Sessions.Load(backendURL)
		if err != nil || !bytes.Equal(saved.CABundle, c.want) {
			t.Errorf("%s: kept %q, %v", c.what, saved.CABundle, err)
		}
	}
}
