package app_test

import (
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A backend and a Git host behind a certificate of a private authority.
func TestAPrivateAuthorityIsTrustedWhereTheConnectionNamesIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.publish(nil)
	behind, err := url.Parse(w.host.Server.URL)
	w.must(err)
	front := httputil.NewSingleHostReverseProxy(behind)
	front.FlushInterval = -1
	server := httptest.NewTLSServer(front)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	w.connection.Spec.BackendURL = server.URL
	w.connection.Spec.RepositoryURL = strings.Replace(w.host.url(), w.host.Server.URL, server.URL, 1)
	w.must(w.client.Create(t.Context(), w.secret()))
	w.must(w.client.Create(t.Context(), w.connection))
	w.bind()
	w.start()
	if message := w.connectionIs("RepositoryUnreachable"); !strings.Contains(message, "its certificate is not trusted") {
		t.Errorf("it says %q", message)
	}

	certificate := func(kind string) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: server.Certificate().Raw})
	}
	for what, bundle := range map[string][]byte{"no PEM": []byte("hello"), "a private key": append(certificate("CERTIFICATE"), certificate("PRIVATE KEY")...)} {
		w.eventually(what+" is refused", func() error {
			conn := w.getConnection()
			conn.Spec.CABundle = bundle
			if err := w.client.Update(t.Context(), conn, client.DryRunAll); err == nil || !strings.Contains(err.Error(), "caBundle must be certificates in PEM") {
				return fmt.Errorf("it says %w", err)
			}
			return nil
		})
	}
	w.eventually("the bundle is set", func() error {
		conn := w.getConnection()
		conn.Spec.CABundle = certificate("CERTIFICATE")
		return w.client.Update(t.Context(), conn)
	})
	w.connectionIs("Connected")
	var message string
	w.eventually("events come", func() error {
		return hasReason(w.getConnection().Status.Conditions, "Events", "Connected", &message)
	})
	w.ready()
	w.apply("orders", spec("small"))
	w.committed("orders")
}
