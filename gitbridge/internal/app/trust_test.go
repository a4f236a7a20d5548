package app

import (
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestACAFileIsReadOrTheBridgeDoesNotStart(t *testing.T) {
	if pool, err := roots(""); pool != nil || err != nil {
		t.Errorf("none: %v, %v", pool, err)
	}
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	write := func(data []byte) {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := roots(file); err == nil || !strings.Contains(err.Error(), "--ca-file") {
		t.Errorf("no file: %v", err)
	}
	write([]byte("hello"))
	if _, err := roots(file); err == nil || !strings.Contains(err.Error(), "no certificate") {
		t.Errorf("no certificate: %v", err)
	}
	write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	if pool, err := roots(file); pool == nil || err != nil {
		t.Errorf("a certificate: %v", err)
	}
}
