package registry

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"golang.org/x/crypto/bcrypt"

	"gitbind.dev/release/internal/image"
	"gitbind.dev/test/env"
)

// a layout with one image for two architectures, and a document about it.
func aLayout(t *testing.T) (dir string, digest v1.Hash) {
	t.Helper()
	var made []v1.Image
	for _, arch := range []string{"amd64", "arm64"} {
		img, err := image.New(image.Spec{Name: "gitbind-it", Program: "it", Arch: arch, Time: time.Unix(1700000000, 0).UTC(), Binary: []byte(arch)})
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, img)
	}
	index, err := image.Index(nil, made)
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(t.TempDir(), "layout")
	l, err := image.Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	about, err := image.Describe(index)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Add(index, "", "gitbind-it", "v1.2.3"); err != nil {
		t.Fatal(err)
	}
	if err := l.Attach(about, "gitbind-it", []byte(`{"said": "of it"}`), "application/vnd.in-toto+json"); err != nil {
		t.Fatal(err)
	}
	return dir, about.Digest
}

// TestPush_SlowToTheReferenceRegistry pushes over TLS with a password, as who has done
// `docker login`, and pulls what is there.
func TestPush_SlowToTheReferenceRegistry(t *testing.T) {
	env.Slow(t)
	host, roots := startRegistry(t, "pusher", "a password")
	dir, digest := aLayout(t)
	push := func() error {
		var told []string
		err := Push(t.Context(), Options{Layout: dir, Registry: host + "/team/gitbind", Tell: func(s string) { told = append(told, s) }})
		if want := host + "/team/gitbind/gitbind-it:v1.2.3@" + digest.String(); err == nil && !slices.Equal(told, []string{want}) {
			t.Errorf("it tells %q, want %q", told, want)
		}
		return err
	}
	t.Setenv("SSL_CERT_FILE", roots)
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	if err := push(); err == nil {
		t.Fatal("it was pushed without a password")
	}
	secret := base64.StdEncoding.EncodeToString([]byte("pusher:a password"))
	config := fmt.Sprintf(`{"auths": {%q: {"auth": %q}}}`, host, secret)
	if err := os.WriteFile(filepath.Join(os.Getenv("DOCKER_CONFIG"), "config.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // again, it is all there
		if err := push(); err != nil {
			t.Fatal(err)
		}
	}
	pulled(t, host+"/team/gitbind/gitbind-it", digest)
}

func pulled(t *testing.T, repository string, digest v1.Hash) {
	t.Helper()
	tag, err := name.NewTag(repository + ":v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	auth := remote.WithAuthFromKeychain(authn.DefaultKeychain)
	index, err := remote.Index(tag, auth, remote.WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := index.Digest(); err != nil || got != digest {
		t.Errorf("the registry has %s (%v), want %s", got, err, digest)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	about, err := remote.Referrers(tag.Digest(digest.String()), auth, remote.WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	if m, err := about.IndexManifest(); err != nil || len(m.Manifests) != 1 || m.Manifests[0].ArtifactType != "application/vnd.in-toto+json" {
		t.Errorf("the image is referred to by %+v (%v)", m, err)
	}
}

// startRegistry builds and starts distribution on a free port, with a certificate that
// is its own root, and one user.
func startRegistry(t *testing.T, user, password string) (host, roots string) {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "registry")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	build.Dir = "testdata/distribution"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the registry: %v\n%s", err, out)
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	roots = certificate(t, dir)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host = l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string]string{
		"users": user + ":" + string(hash) + "\n",
		"config.yaml": fmt.Sprintf(`version: 0.1
log: {level: warn}
storage: {filesystem: {rootdirectory: %[1]s/data}}
http: {addr: "%[2]s", tls: {certificate: %[1]s/tls.crt, key: %[1]s/tls.key}}
auth: {htpasswd: {realm: test, path: %[1]s/users}}
`, dir, host),
	} {
		if err := os.WriteFile(filepath.Join(dir, path), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(program, "serve", filepath.Join(dir, "config.yaml"))
	cmd.Env = append(os.Environ(), "OTEL_TRACES_EXPORTER=none")
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		conn, err := net.Dial("tcp", host)
		if err == nil {
			_ = conn.Close()
			return host, roots
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// certificate writes tls.crt and tls.key for 127.0.0.1.
func certificate(t *testing.T, dir string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{"tls.crt": {Type: "CERTIFICATE", Bytes: der}, "tls.key": {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(filepath.Join(dir, path), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "tls.crt")
}
