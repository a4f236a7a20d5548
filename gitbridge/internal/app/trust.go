package app

import (
	"crypto/x509"
	"fmt"
	"os"
)

// roots are the certificates that are trusted for backend and Git host: the
// system's, and those of files in PEM. They are nil, for the system's, without
// any.
func roots(files []string) (*x509.CertPool, error) {
	if len(files) == 0 {
		return nil, nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	for _, file := range files {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read --ca-file: %w", err)
		}
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--ca-file %s holds no certificate in PEM", file)
		}
	}
	return pool, nil
}
