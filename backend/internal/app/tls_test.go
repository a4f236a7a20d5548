package app

import (
	"bufio"
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
	"strings"
	"testing"
	"time"

	"gitbind.dev/backend/internal/pace"
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
	server := newServer(guarded(hello, "https://gitbind.example.com"), pace.Default, slog.New(slog.DiscardHandler))
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

	// get gives the protocol and the header of an answer.
	get := func(pool *x509.CertPool, newest uint16) (int, http.Header, error) {
		client := &http.Client{Transport: &http.Transport{
			TLSClientConfig:   &tls.Config{RootCAs: pool, ServerName: "gitbind.example.com", MaxVersion: newest},
			ForceAttemptHTTP2: true, DisableKeepAlives: true,
		}}
		r, err := client.Get("https://" + l.Addr().String())
		if err != nil {
			return 0, nil, err
		}
		defer r.Body.Close()
		return r.ProtoMajor, r.Header, nil
	}
	proto, header, err := get(first, tls.VersionTLS13)
	if err != nil {
		t.Fatal(err)
	}
	if header.Get("Strict-Transport-Security") == "" || proto != 2 {
		t.Errorf("got HTTP/%d with %v", proto, header)
	}
	if _, _, err := get(first, tls.VersionTLS12); err != nil {
		t.Errorf("TLS 1.2: %v", err)
	}
	if _, _, err := get(first, tls.VersionTLS11); err == nil {
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
		_, _, err := get(second, tls.VersionTLS13)
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
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "gitbind"}, DNSNames: []string{"gitbind.example.com", "localhost"},
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

// testTLS comes after what needs the backend as it was: it starts it again, by
// another URL.
func (s *security) testTLS(t *testing.T) {
	dir := t.TempDir()
	s.opts.tls = tlsOptions{certFile: filepath.Join(dir, "tls.crt"), keyFile: filepath.Join(dir, "tls.key")}
	pool := newCertificate(t, s.opts.tls, 1)
	log := s.log.String()
	s.stop()
	s.url = strings.Replace(s.url, "http://", "https://", 1)
	s.opts.publicURL = s.url
	s.run(t)
	_, _ = io.WriteString(s.log, log) // for the test of the log
	client := &http.Client{
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	defer client.CloseIdleConnections()
	get := func(path string, with func(*http.Request)) (a answer, proto int, line string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		with(r)
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		// No more than a line: events do not end.
		line, _ = bufio.NewReader(resp.Body).ReadString('\n')
		return answer{resp.StatusCode, resp.Header.Get("Location"), resp.Header}, resp.ProtoMajor, line
	}
	konnector := func(r *http.Request) { r.SetBasicAuth(s.alice.Credential.Username, s.alice.Credential.Password) }

	resp, _, _ := get("/signin", func(*http.Request) {})
	if c := resp.header.Get("Set-Cookie"); !strings.HasPrefix(c, "__Host-gitbind-signin=") || !strings.Contains(c, "; Secure") || !strings.Contains(c, "; HttpOnly") {
		t.Errorf("the cookie is %q", c)
	}
	for _, path := range []string{"/", "/v1/info", "/git/" + s.alice.ID + ".git/info/refs?service=git-upload-pack"} {
		if resp, _, _ := get(path, konnector); resp.status != http.StatusOK || resp.header.Get("Strict-Transport-Security") == "" {
			t.Errorf("%s: %d %v", path, resp.status, resp.header)
		}
	}
	if resp, proto, line := get("/v1/events?cluster="+s.alice.ID, konnector); resp.status != http.StatusOK || proto != 2 || line != "event: ref\n" {
		t.Errorf("events: %d %q by HTTP/%d", resp.status, line, proto)
	}
	clone := filepath.Join(dir, "clone")
	repository := strings.Replace(s.alice.RepositoryURL, "http://", "https://"+s.alice.Credential.Username+":"+s.alice.Credential.Password+"@", 1)
	if out, err := git(t, "", "-c", "http.sslCAInfo="+s.opts.tls.certFile, "clone", "-q", repository, clone); err != nil {
		t.Fatal(out, err)
	}
	s.commit(t, clone, "konnector", map[string]string{"bindings/b/claims/team-a/tls.yaml": "x\n"})
	if out, err := git(t, clone, "-c", "http.sslCAInfo="+s.opts.tls.certFile, "push", "-q", "origin", "HEAD:main"); err != nil {
		t.Error(out, err)
	}
	if out, err := git(t, clone, "push", "-q", "origin", "HEAD:main"); err == nil {
		t.Errorf("git trusts anybody: %s", out)
	}
}
