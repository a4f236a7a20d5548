package repository

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
)

// Roots are the certificates that are trusted for a Connection: the system's,
// and those of its bundle in PEM. They are nil, for the system's, without one.
func Roots(bundle []byte) (*x509.CertPool, error) {
	if len(bundle) == 0 {
		return nil, nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(bundle) {
		return nil, errors.New("spec.caBundle holds no certificate in PEM")
	}
	return pool, nil
}

// Transport trusts these certificates, and takes the proxies that the
// environment names.
func Transport(roots *x509.CertPool) *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	return t
}
