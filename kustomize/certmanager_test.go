package kustomize_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gitbind.dev/test/env"
)

var withCertManager = flag.Bool("cert-manager", false, "run the test in which cert-manager issues certificates, which is built first (4 minutes)")

// TestCertManager has cert-manager issue and renew what the component asks for.
func TestCertManager(t *testing.T) {
	if !*withCertManager {
		t.Skip("needs cert-manager: make test-cert-manager")
	}
	c := open(t, env.StartForTest(t, env.Options{Clusters: []string{env.Control}, CertManager: true}), env.Control)
	c.apply(t, overlay(t, ownPublicURL, "cert-manager"))

	first := c.issued(t, "gitbind-backend-tls", nil)
	trusts(t, first, first)
	ca := c.issued(t, "gitbind-ca-key", nil)
	if !bytes.Equal(ca.Data["tls.crt"], first.Data["ca.crt"]) {
		t.Error("ca.crt is not the CA")
	}

	c.renew(t, "gitbind-backend")
	second := c.issued(t, "gitbind-backend-tls", first)
	trusts(t, first, second)
	if bytes.Equal(first.Data["tls.key"], second.Data["tls.key"]) {
		t.Error("the backend's key was not renewed")
	}

	c.renew(t, "gitbind-ca")
	ca = c.issued(t, "gitbind-ca-key", ca)
	c.renew(t, "gitbind-backend")
	third := c.issued(t, "gitbind-backend-tls", second)
	if bytes.Equal(third.Data["ca.crt"], first.Data["ca.crt"]) {
		t.Error("the CA was not renewed")
	}
	// Who has read the CA before it was renewed, and who reads it now.
	trusts(t, first, third)
	trusts(t, third, third)

	// The CA's key is known to somebody.
	if err := c.client.CoreV1().Secrets("gitbind-system").Delete(t.Context(), "gitbind-ca-key", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.issued(t, "gitbind-ca-key", ca)
	c.renew(t, "gitbind-backend")
	fourth := c.issued(t, "gitbind-backend-tls", third)
	trusts(t, fourth, fourth)
	if verify(t, third.Data["ca.crt"], fourth) == nil {
		t.Error("the CA has the key of before")
	}
}

func (c cluster) renew(t *testing.T, certificate string) {
	t.Helper()
	if err := c.RenewCertificate(t.Context(), "gitbind-system", certificate); err != nil {
		t.Fatal(err)
	}
}

// issued waits for a Secret with another certificate than before.
func (c cluster) issued(t *testing.T, name string, before *corev1.Secret) (now *corev1.Secret) {
	t.Helper()
	if err := c.eventually(t, func(ctx context.Context) (err error) {
		now, err = c.client.CoreV1().Secrets("gitbind-system").Get(ctx, name, metav1.GetOptions{})
		if err == nil && before != nil && bytes.Equal(now.Data["tls.crt"], before.Data["tls.crt"]) {
			err = errors.New("it has the certificate of before")
		}
		return err
	}); err != nil {
		t.Fatalf("Secret %s: %v", name, err)
	}
	return now
}

// trusts fails the test unless who trusts the CA of one Secret trusts a server with another.
func trusts(t *testing.T, client, server *corev1.Secret) {
	t.Helper()
	if err := verify(t, client.Data["ca.crt"], server); err != nil {
		t.Error(err)
	}
}

func verify(t *testing.T, ca []byte, secret *corev1.Secret) error {
	t.Helper()
	pair, err := tls.X509KeyPair(secret.Data["tls.crt"], secret.Data["tls.key"])
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	_, err = pair.Leaf.Verify(x509.VerifyOptions{DNSName: "services.example.org", Roots: roots})
	return err
}
