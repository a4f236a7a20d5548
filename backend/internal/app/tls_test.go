package app

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"
)

func TestTLSIsServedAndFollowsTheFiles(t *testing.T) {
	dir := t.TempDir()
	o := tlsOptions{certFile: filepath.Join(dir, "tls.crt"), keyFile: filepath.Join(dir, "tls.key")}
	if _, err := o.load(); err == nil {
		t.Error("no certificate is not an error")
	}
	first := newCertificate(t, o, 1)
	certificate, err := o.load()
	if err != nil {
		t.Fatal(err)
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })
	server := newServer(guarded(hello, "https://gitbind.example.com"), slog.New(slog.DiscardHandler))
	secure(server, certificate)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 2)
	go func() { done <- watch(ctx, certificate) }()
	go func() { done <- serve(ctx, server, l) }()
	defer func() {
		cancel()
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}()

	get := func(pool *x509.CertPool, newest uint16) (*http.Response, error) {
		client := &http.Client{Transport: &http.Transport{
			TLSClientConfig:   &tls.Config{RootCAs: pool, ServerName: "gitbind.example.com", MaxVersion: newest},
			ForceAttemptHTTP2: true, DisableKeepAlives: true,
		}}
		r, err := client.Get("https://" + l.Addr().String())
		if err == nil {
			r.Body.Close()
		}
		return r, err
	}
	r, err := get(first, tls.VersionTLS13)
	if err != nil {
		t.Fatal(err)
	}
	if r.Header.Get("Strict-Transport-Security") == "" || r.ProtoMajor != 2 {
		t.Errorf("got %s with %v", r.Proto, r.Header)
	}
	if _, err := get(first, tls.VersionTLS12); err != nil {
		t.Errorf("TLS 1.2: %v", err)
	}
	if _, err := get(first, tls.VersionTLS11); err == nil {
		t.Error("TLS 1.1 is spoken")
	}
	if r, err := http.Get("http://" + l.Addr().String()); err == nil {
		r.Body.Close()
		if r.StatusCode != http.StatusBadRequest {
			t.Errorf("plain HTTP is answered with %s", r.Status)
		}
	}

	second := newCertificate(t, o, 2)
	eventually(t, "the new certificate is shown", func() error {
		_, err := get(second, tls.VersionTLS13)
		return err
	})
}

// newCertificate writes a certificate, and gives those who trust it.
func newCertificate(t *testing.T, o tlsOptions, serial int64) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "gitbind"}, DNSNames: []string{"gitbind.example.com"},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	write(t, o.keyFile, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})))
	write(t, o.certFile, string(certificate))
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certificate)
	return pool
}
