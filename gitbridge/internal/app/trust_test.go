package app

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestACAFileIsReadOrTheBridgeDoesNotStart(t *testing.T) {
	t.Parallel()
	if pool, err := roots(nil); pool != nil || err != nil {
		t.Errorf("none: %v, %v", pool, err)
	}
	dir := t.TempDir()
	write := func(name string, data []byte) (file string) {
		file = filepath.Join(dir, name)
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	backend, gitHost := authority(t), authority(t)
	first, second := write("backend.pem", pemOf(backend)), write("git-host.pem", pemOf(gitHost))
	for _, files := range [][]string{{filepath.Join(dir, "nowhere")}, {first, filepath.Join(dir, "nowhere")}} {
		if _, err := roots(files); err == nil || !strings.Contains(err.Error(), "--ca-file") {
			t.Errorf("%v: %v", files, err)
		}
	}
	if _, err := roots([]string{first, write("hello", []byte("hello"))}); err == nil || !strings.Contains(err.Error(), "hello holds no certificate") {
		t.Errorf("no certificate: %v", err)
	}
	pool, err := roots([]string{first, second})
	if err != nil {
		t.Fatal(err)
	}
	for what, ca := range map[string]*x509.Certificate{"the first": backend, "the second": gitHost} {
		if _, err := ca.Verify(x509.VerifyOptions{Roots: pool}); err != nil {
			t.Errorf("%s is not trusted: %v", what, err)
		}
	}
	if _, err := authority(t).Verify(x509.VerifyOptions{Roots: pool}); err == nil {
		t.Error("any is trusted")
	}
}

func TestEachCAFileCounts(t *testing.T) {
	t.Parallel()
	cmd := NewCommand()
	if err := cmd.ParseFlags([]string{"--ca-file=a.pem", "--ca-file", "b,c.pem"}); err != nil {
		t.Fatal(err)
	}
	if got, err := cmd.Flags().GetStringArray("ca-file"); err != nil || !slices.Equal(got, []string{"a.pem", "b,c.pem"}) {
		t.Errorf("%v, %v", got, err)
	}
}

// authority is the certificate of one of its own.
func authority(t *testing.T) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func pemOf(ca *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw})
}
