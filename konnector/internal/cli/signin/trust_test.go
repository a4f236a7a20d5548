package signin

import (
	"bytes"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"testing"

	"gitbind.dev/konnector/internal/cli/session"
)

func TestOnlyWhatThePersonGaveIsTrustedLater(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	theirs := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	given := append([]byte("# the person's\n"), theirs...)
	s := &SignIn{Sessions: session.Store{Dir: t.TempDir()}, HTTP: http.DefaultClient}
	for _, c := range []struct {
		what     string
		trusting func([]byte) (*SignIn, error)
		bundle   []byte
		want     []byte
	}{
		{"a Connection's", s.Trusting, theirs, nil},
		{"the person's", s.TrustingAlways, given, given},
		{"a Connection's after the person's", s.Trusting, theirs, given},
		{"none after the person's", s.Trusting, nil, given},
	} {
		in, err := c.trusting(c.bundle)
		if err != nil {
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
