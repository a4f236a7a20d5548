package signin

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"

	"gitbind.dev/konnector/internal/cli/session"
)

// Trusting is a SignIn that also trusts the certificates in a PEM bundle, at
// the backend and at the issuer, for as long as it is used: a bundle that somebody
// put into a Connection must not be trusted elsewhere. Once the person has agreed to
// it (Agree), each renewal of the sign-in trusts it, too. An empty bundle changes
// nothing.
func (s *SignIn) Trusting(bundle []byte) (*SignIn, error) {
	if len(bundle) == 0 {
		return s, nil
	}
	client, err := trusting(s.HTTP, bundle)
	if err != nil {
		return nil, err
	}
	out := *s
	out.HTTP, out.bundle = client, bundle
	return &out, nil
}

// TrustingAgain is a SignIn that trusts at a backend what the person gave or agreed to when
// they signed in there, unless it trusts another bundle already.
func (s *SignIn) TrustingAgain(backendURL string) (*SignIn, error) {
	if len(s.bundle) > 0 {
		return s, nil
	}
	known, err := s.Sessions.Load(backendURL)
	if errors.Is(err, session.ErrNone) {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	return s.Trusting(known.CABundle)
}

// WithAdvice says what can be done about a certificate whose authority this machine does not
// trust. Other errors stay as they are.
func WithAdvice(err error) error {
	var unknown x509.UnknownAuthorityError
	if errors.As(err, &unknown) {
		return fmt.Errorf("its certificate is not trusted: %w. If the authority is one of your own, give its certificate to connect, or with --url, as --ca-file FILE; where backend and issuer have different ones, both in one file", err)
	}
	return err
}

// Pool is the system's trusted certificates, and those of a PEM bundle.
func Pool(bundle []byte) (*x509.CertPool, error) {
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("read the trusted certificates of this machine: %w", err)
	}
	if len(bundle) > 0 && !pool.AppendCertsFromPEM(bundle) {
		return nil, errors.New("there is no certificate in the CA bundle: give PEM, beginning with -----BEGIN CERTIFICATE-----")
	}
	return pool, nil
}

func trusting(base *http.Client, bundle []byte) (*http.Client, error) {
	pool, err := Pool(bundle)
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	client := *base
	client.Transport = transport
	return &client, nil
}
