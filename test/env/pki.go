package env

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

const certificateLifetime = 365 * 24 * time.Hour

// certificateAge is how old a certificate is when it is made: programs whose clocks go back
// by a day find it valid, as they would most.
const certificateAge = 48 * time.Hour

// An authority signs the certificates of one cluster, or of Crossplane.
type authority struct {
	cert        *x509.Certificate
	key         crypto.Signer
	certPEM     []byte
	pkcs1KeyPEM []byte // only of an RSA key
}

// A pair is a certificate with its key, both as PEM.
type pair struct{ cert, key []byte }

func newAuthority(name string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	return signItself(name, key)
}

// newRSAAuthority is for Crossplane, which reads its authority's key as PKCS #1.
func newRSAAuthority(name string) (*authority, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	a, err := signItself(name, key)
	if err != nil {
		return nil, err
	}
	a.pkcs1KeyPEM = pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	return a, nil
}

func signItself(name string, key crypto.Signer) (*authority, error) {
	serial, err := serialNumber()
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             now.Add(-certificateAge),
		NotAfter:              now.Add(certificateLifetime),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("create authority %s: %w", name, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &authority{cert: cert, key: key, certPEM: certificatePEM(der)}, nil
}

// write writes the authority of a cluster where readAuthority finds it.
func (a *authority) write(dir string) error {
	signer, ok := a.key.(*ecdsa.PrivateKey)
	if !ok {
		return fmt.Errorf("write the authority to %s: its key is no ECDSA key", dir)
	}
	key, err := privateKeyPEM(signer)
	if err != nil {
		return err
	}
	return writeFiles(dir, map[string][]byte{"ca.crt": a.certPEM, "ca.key": key})
}

func readAuthority(dir string) (*authority, error) {
	read, err := tls.LoadX509KeyPair(filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.key"))
	if err != nil {
		return nil, fmt.Errorf("read the authority in %s: %w", dir, err)
	}
	key, ok := read.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("read the authority in %s: its key does not sign", dir)
	}
	return &authority{cert: read.Leaf, key: key, certPEM: certificatePEM(read.Certificate[0])}, nil
}

// client is a certificate for a user, as Kubernetes reads it: its name and its
// groups.
func (a *authority) client(name string, groups ...string) (pair, error) {
	return a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: name, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// server is a certificate for a server on this machine, also known under names and
// addresses.
func (a *authority) server(others ...string) (pair, error) {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "localhost"},
		DNSNames:    []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, other := range others {
		if ip := net.ParseIP(other); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, other)
		}
	}
	return a.issue(template)
}

// certify makes who signs for the servers that people use.
func (e *Env) certify() (err error) {
	if e.serverCA, err = newAuthority("gitbind-test"); err != nil {
		return err
	}
	e.CAFile = filepath.Join(e.Dir, "ca.crt")
	return os.WriteFile(e.CAFile, e.serverCA.certPEM, 0o644)
}

func (a *authority) issue(template *x509.Certificate) (pair, error) {
	serial, err := serialNumber()
	if err != nil {
		return pair{}, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, err
	}
	template.SerialNumber = serial
	template.NotBefore, template.NotAfter = a.cert.NotBefore, a.cert.NotAfter
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return pair{}, fmt.Errorf("sign the certificate of %s: %w", template.Subject.CommonName, err)
	}
	keyPEM, err := privateKeyPEM(key)
	if err != nil {
		return pair{}, err
	}
	return pair{cert: certificatePEM(der), key: keyPEM}, nil
}

// writeTLS writes a pair and its authority under the names that Kubernetes
// gives them in a Secret.
func writeTLS(dir string, p pair, a *authority) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return writeFiles(dir, map[string][]byte{"tls.crt": p.cert, "tls.key": p.key, "ca.crt": a.certPEM})
}

func writeFiles(dir string, files map[string][]byte) error {
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// newSigningKey is a key for service account tokens, with its public half.
func newSigningKey() (key, public []byte, err error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if key, err = privateKeyPEM(k); err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalPKIXPublicKey(k.Public())
	if err != nil {
		return nil, nil, err
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), nil
}

func serialNumber() (*big.Int, error) {
	return rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
}

func certificatePEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func privateKeyPEM(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}
